/*
 * feed.pml
 *	  One lane of the feed: from the change log through the ring to one watcher of one worker.
 *
 * The feed process reads version after version and writes records to the ring.  It may be killed before each step; its
 * successor continues at the position that it stored.  An event may be too large for the ring.  The worker reads the
 * ring at its own pace.  Each version concerns the watcher: it must see all of them, in order, once.
 *
 * MUTANT 0 is the protocol as it is used.  The others break it:
 *	  1  the worker does not compare after with its position
 *	  2  the worker does not check whether the record was overwritten while it was read
 *	  3  after an overrun the watcher follows without a read of the log
 *	  4  the worker uses records again that it has used before
 *	  5  a successor lowers the mark of what its predecessor may have written
 *	  6  after an overrun the worker does not ask for the state
 */
#ifndef MUTANT
#define MUTANT 0
#endif

#define VERSIONS 3
#define SLOTS 2
#define KILLS 1

#define EVENT 1
#define STATE 2

byte newest;						/* of the log */
byte stored;						/* by the feed process, beside the ring */
byte kind[SLOTS];
byte after[SLOTS];
byte version[SLOTS];
byte end;							/* records in the ring so far */
byte taken;							/* records that are written or being written */
byte asked;							/* how often the worker has asked for a state */
byte kills;
bool large;							/* there was a large event */

inline maybe_killed()
{
	if
	:: kills < KILLS -> kills++; goto begin
	:: true
	fi
}

/* A record is written in several steps. */
inline tell(k, a, v)
{
	if
	:: taken < end + 1 -> taken = end + 1
	:: else
	fi;
	kind[end % SLOTS] = k;
	maybe_killed();
	d_step { after[end % SLOTS] = a; version[end % SLOTS] = v };
	maybe_killed();
	end++
}

active proctype Writer()
{
	do
	:: newest < VERSIONS -> newest++
	:: newest == VERSIONS -> break
	od
}

active proctype FeedProcess()
{
	byte		position, told, answered;
	bool		announce;

begin:
	position = stored;
	told = stored;
	announce = true;
#if MUTANT == 5
	taken = end;
#endif
end_idle:
	do
	:: announce || answered != asked ->
		answered = asked;
		announce = false;
		tell(STATE, told, position)
	:: newest > position ->
		if
		:: tell(EVENT, told, position + 1)
		:: !large -> large = true; announce = true
		fi;
		position++;
		told = position;
		maybe_killed();
		stored = told
	od
}

active proctype Worker()
{
	byte		place, position, floor, watched;	/* watched: the position of the watcher */
	byte		k, a, v;
	bool		known, following, must_read;

	must_read = true;
	do
	:: watched == VERSIONS -> break
	:: place < end ->
		/* The oldest record may be overwritten while it is copied. */
		d_step { k = kind[place % SLOTS]; a = after[place % SLOTS]; v = version[place % SLOTS] };
		atomic { if
#if MUTANT != 2
		:: taken > place + SLOTS ->
			place = end;
			known = false;
			following = false;
			must_read = true;
#if MUTANT == 3
			must_read = false;
#endif
#if MUTANT != 6
			asked++
#endif
#endif
		:: MUTANT == 2 || taken <= place + SLOTS ->
			place++;
			if
			:: known && a > position && MUTANT != 1 ->
				known = false;
				following = false;
				must_read = true;
				if
				:: k == EVENT -> asked++
				:: else
				fi
			:: else
			fi;
			if
			:: k == STATE && !known ->
				known = true;
				position = v;
				floor = v
			:: k == STATE && known && v > position -> position = v
			:: k == EVENT && known && (v > position || MUTANT == 4) ->
				position = v;
				if
				:: following && (v > watched || MUTANT == 4) ->
					assert(v == watched + 1);
					watched = v
				:: else
				fi
			:: else
			fi;
			/* A watcher that follows has got all versions up to the position. */
			assert(!following || watched >= position)
		fi }
	:: known && !following ->
		atomic { if
		:: must_read || (watched < floor && MUTANT != 3) ->
			watched = (newest > watched -> newest : watched);
			must_read = false
		:: else ->
			/* The watcher gets the versions in the worker's own ring, which begins above the floor. */
			assert(watched >= floor);
			watched = (position > watched -> position : watched);
			following = true
		fi }
	od
}
