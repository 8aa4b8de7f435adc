// Runs the JavaScript client's informers against two proxies; regress/clients/stack.py, named by STACK, starts them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import * as k8s from '@kubernetes/client-node';

const reports = { group: 'wgpolicyk8s.io', version: 'v1alpha2', plural: 'policyreports' };
const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);

// What ends a line for one reader or another.
const odd = 'a\nb\rc\u2028d\u2029e\u0085f\u000bg\u0000h\u00e9\u{1f600}';

let stack;

// Every one that was made: whatever a test comes to, nothing may keep the process alive.
const followers = [];

class Stack {
	restarting = false; // a proxy

	async start() {
		this.process = spawn('/usr/bin/python3', [process.env.STACK], { stdio: ['pipe', 'pipe', 'inherit'] });
		this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
		Object.assign(this, await this.answer());
		const text = readFileSync(this.kubeconfig, 'utf8');
		this.configs = this.ports.map((port) => {
			const config = new k8s.KubeConfig();
			config.loadFromString(text.replace(`127.0.0.1:${this.ports[0]}`, `127.0.0.1:${port}`));
			return config;
		});
		this.apis = this.configs.map((config) => config.makeApiClient(k8s.CustomObjectsApi));
	}

	async answer() {
		const { value, done } = await this.lines.next();
		assert.ok(!done, 'stack.py has ended');
		const answer = JSON.parse(value);
		assert.equal(answer.error, undefined);
		return answer;
	}

	async do(command) {
		this.process.stdin.write(`${command}\n`);
		return this.answer();
	}

	async end() {
		this.process.stdin.end();
		await once(this.process, 'exit');
	}
}

before(async () => {
	stack = new Stack();
	await stack.start();
});

after(async () => {
	await Promise.all(followers.map((follower) => follower.stop()));
	await stack.end();
});

async function until(what, condition) {
	const deadline = Date.now() + 60000;
	for (;;) {
		const complaint = await condition();
		if (!complaint) {
			return;
		}
		assert.ok(Date.now() < deadline, `${what}: ${complaint}`);
		await sleep(50);
	}
}

// An informer, and what its callbacks have told: an object is added once, then updated, then deleted.
class Follower {
	constructor(proxy, namespace, labelSelector) {
		this.told = new Map();
		this.wrong = [];
		this.errors = [];
		this.connects = 0;
		const path = `/apis/${reports.group}/${reports.version}/namespaces/${namespace}/${reports.plural}`;
		this.lists = 0;
		const list = () => {
			this.lists++;
			return stack.apis[proxy].listNamespacedCustomObject({ ...reports, namespace, labelSelector });
		};
		this.informer = k8s.makeInformer(stack.configs[proxy], path, list, labelSelector);
		for (const [verb, known] of [['add', false], ['update', true], ['delete', true]]) {
			this.informer.on(verb, (object) => {
				const name = object.metadata.name;
				if (this.told.has(name) !== known) {
					this.wrong.push(`${verb} of ${name}`);
				}
				if (verb === 'delete') {
					this.told.delete(name);
				} else {
					this.told.set(name, object);
				}
			});
		}
		this.informer.on('connect', () => this.connects++);
		this.stopped = true;
		this.informer.on('error', (error) => {
			// An end that was asked for is told as an error, too.
			if (!this.stopped) {
				this.errors.push({ error, restarting: stack.restarting });
				// As the client's documentation advises.
				setTimeout(() => this.stopped || this.informer.start(), 50);
			}
		});
		followers.push(this);
	}

	async start() {
		this.stopped = false;
		await this.informer.start();
	}

	async stop() {
		this.stopped = true;
		await this.informer.stop();
	}

	// Waits until the informer and the callbacks know what a list holds.
	async agrees(namespace, labelSelector) {
		const { items } = await stack.apis[0].listNamespacedCustomObject({ ...reports, namespace, labelSelector });
		const wanted = byName(items);
		await until('the informer is the list', () => {
			try {
				assert.deepEqual(byName(this.informer.list()), wanted);
				assert.deepEqual(byName([...this.told.values()]), wanted);
			} catch (error) {
				return error.message.slice(0, 500);
			}
			return undefined;
		});
		assert.deepEqual(this.wrong, []);
		return items;
	}
}

function byName(items) {
	return Object.fromEntries(items.map((item) => [item.metadata.name, item]));
}

function report(namespace, name, colour) {
	return {
		apiVersion: `${reports.group}/${reports.version}`,
		kind: 'PolicyReport',
		metadata: { name, namespace, labels: { colour } },
		results: [{ policy: 'p', result: 'pass', message: odd }],
	};
}

// Creates, replaces, patches and deletes ten reports of its own until told to end.
async function write(number, namespace, state) {
	const stored = new Map();
	while (!state.ended) {
		// Requests of the restarted proxy would fail: only informers are meant to survive that here.
		const api = stack.apis[1];
		const name = `w${number}-${Math.floor(Math.random() * 10)}`;
		const colour = ['red', 'green'][Math.floor(Math.random() * 2)];
		const action = Math.random();
		if (!stored.has(name)) {
			const body = report(namespace, name, colour);
			stored.set(name, await api.createNamespacedCustomObject({ ...reports, namespace, body }));
		} else if (action < 0.3) {
			await api.deleteNamespacedCustomObject({ ...reports, namespace, name });
			stored.delete(name);
		} else if (action < 0.6) {
			const body = { ...stored.get(name), summary: { fail: state.changes % 100 } };
			stored.set(name, await api.replaceNamespacedCustomObject({ ...reports, namespace, name, body }));
		} else {
			const body = { metadata: { labels: { colour }, annotations: { odd: odd + state.changes } } };
			stored.set(name, await api.patchNamespacedCustomObject({ ...reports, namespace, name, body }, merge));
		}
		state.changes++;
	}
}

// INF-01, INF-02, INF-03, W-02, W-11, W-20: informers of everything and of a label through two proxies, one of which is
// restarted, follow writers; none lists twice.
test('informers follow writers', async () => {
	const namespace = 'js-1';
	const three = [new Follower(0, namespace), new Follower(1, namespace), new Follower(0, namespace, 'colour=red')];
	const state = { ended: false, changes: 0 };
	const writers = Promise.all([0, 1, 2, 3].map((number) => write(number, namespace, state))).finally(() => {
		state.ended = true;
	});
	const more = async (count) => {
		const goal = state.changes + count;
		await until('changes', () => (state.changes >= goal || state.ended ? undefined :
			`${goal - state.changes} are missing`));
	};
	try {
		await more(50);
		await Promise.all(three.map((follower) => follower.start()));
		await more(100);
		stack.restarting = true;
		await stack.do('restart 0');
		stack.restarting = false;
		await more(100);
	} finally {
		state.ended = true;
		await writers;
	}
	const items = await three[0].agrees(namespace);
	await three[1].agrees(namespace);
	await three[2].agrees(namespace, 'colour=red');
	assert.ok(items.length > 0 && items.every((item) => item.results[0].message === odd));
	for (const [number, follower] of three.entries()) {
		assert.equal(follower.lists, 1, `lists of informer ${number}`);
		for (const { error, restarting } of follower.errors) {
			// A proxy that ends answers 429 to what comes late, and one that has just begun answers 503 until it knows
			// what it serves, both as kube-apiserver does.
			const expected = error.statusCode === undefined || ([429, 503].includes(error.statusCode) && restarting);
			assert.ok(number !== 1 && expected, `informer ${number}: ${error.stack}`);
		}
		assert.ok(number === 1 || follower.connects > 1, `informer ${number} never connected again`);
		await follower.stop();
	}
});

// EXP-01, W-50, INF-02: an informer that was away for longer than the log reaches back is told so by 410 and lists
// again.
test('an informer lists again after 410', async () => {
	const namespace = 'js-2';
	const api = stack.apis[1];
	const follower = new Follower(0, namespace);
	await api.createNamespacedCustomObject({ ...reports, namespace, body: report(namespace, 'old', 'red') });
	await follower.start();
	await follower.agrees(namespace);
	await follower.stop();
	await api.deleteNamespacedCustomObject({ ...reports, namespace, name: 'old' });
	await api.createNamespacedCustomObject({ ...reports, namespace, body: report(namespace, 'new', 'green') });
	await stack.do('compact');
	await follower.start();
	await follower.agrees(namespace);
	assert.equal(follower.lists, 2);
	assert.deepEqual(follower.errors, []);
	await follower.stop();
});

// CRE-01, UPD-03, DEL-01, ERR-10: errors of the client's calls carry the Status.
test('errors carry a Status', async () => {
	const namespace = 'js-3';
	const api = stack.apis[0];
	const body = report(namespace, 'r', 'red');
	await api.createNamespacedCustomObject({ ...reports, namespace, body });
	await assert.rejects(api.createNamespacedCustomObject({ ...reports, namespace, body }), (error) => {
		const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
		return error.code === 409 && status.kind === 'Status' && status.reason === 'AlreadyExists';
	});
	await assert.rejects(api.getNamespacedCustomObject({ ...reports, namespace, name: 'none' }), { code: 404 });
	await api.deleteNamespacedCustomObject({ ...reports, namespace, name: 'r' });
});
