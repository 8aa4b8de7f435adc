/*
 * lane.pml
 *	  Model of a lane: batches under the lane's lock, versions, the undo log,
 *	  compaction, a crash of the server; a watcher and a list that is read in
 *	  pieces.  spin tries all interleavings.
 *
 * It has the steps of sql/store/write.sql, read.sql, watch.sql and upkeep.sql.  What one statement sees is one d_step:
 * PostgreSQL gives every statement one snapshot.  A commit becomes durable, then visible, then the locks of
 * its transaction are released.
 *
 * Asserted (numbers of the invariants as in docs/architecture/store.md, "What is promised"):
 *	  order		a version becomes visible only when every smaller one of the lane is visible or will never be
 *	  undo		the old state in the log is the state that was replaced
 *	  watch		a list and the stream that follows it miss nothing, until the stream is told that events are gone
 *	  list		all pieces of a list show the state at its version, or the list is cut
 *	  durable	a write that was answered survives a crash
 *	  crash		a version that a reader may have seen is not given to another change
 *
 * MUTANT breaks the scheme in one way; the search must find each (regress/model/check):
 *	  1	no lock				2	version drawn before the lock	3	lock released before the change is visible
 *	  4	sequence with a cache	5	stored state read before the lock	6	answered and visible before it is durable
 *	  7	rows removed before the floor is raised	8	floor read in an earlier snapshot than the rows
 *	  9	list without the undo log	10	watcher's position from the sequence instead of the log
 */
#ifndef MUTANT
#define MUTANT 0
#endif

/* The reader: 1 a watcher, 2 a list.  There is one at a time, because readers do not affect each other. */
#ifndef READER
#define READER 1
#endif

#define WRITERS 2
#define BATCHES (2 - w)			/* of writer w */
#define KEYS 2
#define VERSIONS 8				/* versions 1 to 7 */
#define NONE 0

/* The lane's lock; the writer that holds it, counted from 1. */
byte locked = NONE;
byte sequence = 0;
byte epoch = 0;					/* counts crashes */
byte finished = 0;				/* writers */

/*
 * What is visible.  stored[k]: version of the object k, NONE when there is none.  The model deletes no
 * object, because added objects are enough.
 */
byte stored[KEYS];
byte logged_key[VERSIONS];		/* k + 1, NONE for no row */
byte logged_old[VERSIONS];		/* the version that the change replaced */
byte lane_floor = 0;

/* The truth, for the assertions: the changes that were ever visible, their objects, and the answered versions. */
bool happened[VERSIONS];
byte happened_key[VERSIONS];
bool answered[VERSIONS];

/* The changes that a batch is about to make visible.  After a crash, recovery makes a durable batch visible. */
typedef Batch {
	bool		open;
	bool		durable;
	byte		version[KEYS];	/* of each key, NONE when the batch does not write it */
	byte		old[KEYS];
}
Batch batch[WRITERS];

/* Newest version of the lane in one snapshot: the last row of the log, or the floor. */
inline newest_version(into)
{
	into = lane_floor;
	v = 1;
	do
	:: v < VERSIONS ->
		if
		:: logged_key[v] != NONE && v > into -> into = v
		:: else
		fi;
		v++
	:: else -> break
	od;
	v = 0
}

/* The changes of a batch become visible, together. */
inline make_visible(w)
{
	k = 0;
	do
	:: k < KEYS ->
		if
		:: batch[w].version[k] != NONE ->
			v = batch[w].version[k];
			/* crash, order: before, neither this version was visible nor a later one of another batch. */
			assert(!happened[v]);
			o = v + 1;
			do
			:: o < VERSIONS ->
				assert(!happened[o] || o == batch[w].version[0] || o == batch[w].version[1]);
				o++
			:: else -> break
			od;
			/* undo: the replaced version is the one that the batch has read. */
			assert(stored[k] == batch[w].old[k]);
			stored[k] = v;
			logged_key[v] = k + 1;
			logged_old[v] = batch[w].old[k];
			happened[v] = true;
			happened_key[v] = k + 1
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	v = 0;
	o = 0
}

inline forget(w)
{
	batch[w].open = false;
	batch[w].durable = false;
	batch[w].version[0] = NONE;
	batch[w].version[1] = NONE;
	batch[w].old[0] = NONE;
	batch[w].old[1] = NONE
}

/* A batch of one or two writes.  When the server crashes, the client gets no answer, and the batch ends. */
proctype Writer(byte w)
{
	byte		mine, done, k, v, o, drawn, cached;
	bool		both, commits;

	cached = NONE;
	do
	:: done < BATCHES && sequence + 2 < VERSIONS ->
		atomic {
			done++;
			mine = epoch;
			if
			:: both = true
			:: both = false
			fi;
			if
			:: commits = true
			:: commits = false
			fi
		};

#if MUTANT == 2
		atomic { epoch == mine -> sequence++; drawn = sequence }
#endif
#if MUTANT == 5
		d_step { batch[w].old[0] = stored[0]; batch[w].old[1] = stored[1] }
#endif
#if MUTANT != 1
		atomic {
			if
			:: epoch != mine -> goto lost
			:: epoch == mine && locked == NONE -> locked = w + 1
			fi
		}
#endif
		/* The statement that decides and stores: one snapshot, taken after the lock. */
		atomic {
			if
			:: epoch != mine -> goto lost
			:: else ->
				d_step {
					batch[w].open = true;
#if MUTANT != 5
					batch[w].old[0] = stored[0];
					batch[w].old[1] = stored[1];
#endif
				}
			fi
		}
		/* Versions, one for each write. */
#if MUTANT != 2
		atomic {
			if
			:: epoch != mine -> goto lost
			:: else ->
#if MUTANT == 4
				if
				:: cached != NONE -> drawn = cached; cached = NONE
				:: else -> sequence = sequence + 2; drawn = sequence - 1; cached = sequence
				fi
#else
				sequence++;
				drawn = sequence
#endif
			fi
		}
#endif
		atomic {
			if
			:: epoch != mine -> goto lost
			:: else ->
				batch[w].version[0] = drawn;
				if
				:: both && sequence + 1 < VERSIONS -> sequence++; batch[w].version[1] = sequence
				:: else
				fi
			fi
		}

		if
		:: !commits ->
			atomic {
				if
				:: epoch == mine ->
					d_step { forget(w) };
					if
					:: locked == w + 1 -> locked = NONE
					:: else
					fi
				:: else
				fi
			}
		:: else ->
#if MUTANT == 3
			atomic { if :: epoch != mine -> goto lost :: else -> locked = NONE fi }
#endif
#if MUTANT != 6
			atomic { if :: epoch != mine -> goto lost :: else -> batch[w].durable = true fi };
#endif
			atomic {
				if
				:: epoch != mine -> goto lost
				:: else -> d_step { make_visible(w) }
				fi
			}
#if MUTANT == 6
			answered[drawn] = true;
			atomic { if :: epoch != mine -> goto lost :: else -> batch[w].durable = true fi };
#endif
			atomic {
				if
				:: epoch == mine ->
					if
					:: locked == w + 1 -> locked = NONE
					:: else
					fi;
					d_step { forget(w) };
					answered[drawn] = true
				:: else				/* the answer is lost, but the batch is not */
				fi
			}
		fi;
lost:
		skip;
		d_step { mine = 0; drawn = 0; both = false; commits = false }
	:: else -> break
	od;
	finished++
}

/* kill -9 of the server, once, at any moment. */
proctype Crash()
{
	byte		k, v, o, w;

	if
	:: skip
	:: d_step {
			epoch++;
			locked = NONE;
			w = 0;
			do
			:: w < WRITERS ->
				if
				:: batch[w].open && batch[w].durable && batch[w].version[0] != NONE && !happened[batch[w].version[0]] ->
					make_visible(w)
				:: batch[w].open && !batch[w].durable && batch[w].version[0] != NONE && happened[batch[w].version[0]] ->
					/* The batch was visible and is lost: only a mutant comes here. */
					k = 0;
					do
					:: k < KEYS ->
						if
						:: batch[w].version[k] != NONE ->
							v = batch[w].version[k];
							stored[k] = batch[w].old[k];
							logged_key[v] = NONE;
							assert(!answered[v])	/* durable */
						:: else
						fi;
						k++
					:: else -> break
					od;
					k = 0;
					v = 0
				:: else
				fi;
				forget(w);
				w++
			:: else -> break
			od;
			w = 0
		}
	fi
}

/* Two rounds of compaction: one transaction raises the floor, and removes the rows up to the floor. */
proctype Compactor()
{
	byte		step, v, top;

	do
	:: step < 2 ->
		step++;
		d_step {
			newest_version(top);
			if
			:: top > lane_floor + 1 -> top--
			:: else
			fi
		};
#if MUTANT == 7
		d_step {
			v = 1;
			do
			:: v < VERSIONS -> if :: v <= top -> logged_key[v] = NONE :: else fi; v++
			:: else -> break
			od;
			v = 0
		};
		d_step { if :: top > lane_floor -> lane_floor = top :: else fi }
#else
		d_step {
			if
			:: top > lane_floor -> lane_floor = top
			:: else
			fi;
			v = 1;
			do
			:: v < VERSIONS ->
				if
				:: v <= top -> logged_key[v] = NONE
				:: else
				fi;
				v++
			:: else -> break
			od;
			v = 0
		}
#endif
	:: else -> break
	od
}

/* Begins at the newest version, after a list; asks until all writers have ended.  An answer has at most two events. */
proctype Watcher()
{
	byte		position, v, taken, seen_floor;
	bool		delivered[VERSIONS];
	bool		gone, last;

	d_step {
#if MUTANT == 10
		position = sequence;
#else
		newest_version(position);
#endif
		/* The list, which the stream follows, has shown all changes up to this version. */
		v = 1;
		do
		:: v < VERSIONS ->
			delivered[v] = (v <= position && happened[v]);
			v++
		:: else -> break
		od;
		v = 0
	};
	do
	:: !gone ->
		last = (finished == WRITERS);
#if MUTANT == 8
		seen_floor = lane_floor;
#endif
		d_step {
			taken = 0;
#if MUTANT != 8
			seen_floor = lane_floor;
#endif
			if
			:: position < seen_floor -> gone = true
			:: else ->
				v = position + 1;
				do
				:: v < VERSIONS && taken < 2 ->
					if
					:: logged_key[v] != NONE ->
						delivered[v] = true;
						position = v;
						taken++
					:: else
					fi;
					v++
				:: else -> break
				od
			fi;
			v = 0
		};
		if
		:: last && taken == 0 -> break
		:: else
		fi
	:: else -> break
	od;
	/* watch: the stream has shown all changes up to its position, and all others, too, when it was not cut. */
	skip;
	d_step {
		v = 1;
		do
		:: v < VERSIONS ->
			if
			:: v <= position || !gone -> assert(delivered[v] == happened[v])
			:: else
			fi;
			v++
		:: else -> break
		od
	}
}

/* The version of object k when the lane was at version r, by the truth. */
inline truth_at(k, r, into)
{
	into = NONE;
	v = 1;
	do
	:: v < VERSIONS && v <= r ->
		if
		:: happened[v] && happened_key[v] == k + 1 -> into = v
		:: else
		fi;
		v++
	:: else -> break
	od;
	v = 0
}

/* A list of two pieces, one object each. */
proctype Lister()
{
	byte		at, piece, v, found, truth;
	bool		cut;

	d_step { newest_version(at) };
	do
	:: piece < KEYS && !cut ->
		d_step {
			if
			:: at < lane_floor -> cut = true
			:: else ->
				found = (stored[piece] <= at -> stored[piece] : NONE);
#if MUTANT == 9
				found = stored[piece];
#else
				/* The state before the first later change of the key. */
				v = at + 1;
				do
				:: v < VERSIONS ->
					if
					:: logged_key[v] == piece + 1 -> found = logged_old[v]; v = VERSIONS
					:: else -> v++
					fi
				:: else -> break
				od;
#endif
				truth_at(piece, at, truth);
				assert(found == truth)	/* list */
			fi;
			v = 0
		};
		piece++
	:: else -> break
	od
}

init
{
	atomic {
		run Writer(0);
		run Writer(1);
		run Crash();
		run Compactor();
#if READER == 1
		run Watcher()
#else
		run Lister()
#endif
	}
}
