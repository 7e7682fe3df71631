import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import type { Preparation } from "../../src/listener/replicas/plan-state.ts";
import { drainTimeoutMs, PlanWorld, revisionRun } from "./plan-world.ts";

const runsMax = Number(process.env["PIERHEAD_PLAN_RUNS"] ?? 20_000);

/** The target carries the traffic and falls asleep before the control plane counts it as serving. */
const sleepBeforeServing: [Name, number][] = [
  ["newRevision", 260],
  ["becomesReady", 0],
  ["newRevision", 235],
  ["becomesReady", 0],
  ["later", 957],
  ["later", 0],
];

test("breaks no service, shares no state and touches no replica twice in any generated history, and every history settles", () => {
  fc.assert(
    fc.property(fc.array(happening, { minLength: 1, maxLength: 60 }), (history) => {
      const world = new PlanWorld();
      for (const [name, turn] of history) {
        happenings[name](world, turn);
        world.pass();
      }
      world.settleDown();
      assertSettled(world);
    }),
    { numRuns: runsMax, examples: [[sleepBeforeServing]] },
  );
});

function assertSettled(world: PlanWorld): void {
  const { assignment, replicas, route, report } = world;
  if (assignment.op === "delete") {
    assert.deepEqual([replicas, route, report?.deleted], [[], null, true]);
    return;
  }
  const { target, serving } = assignment;
  assert.equal(target?.revision_id, serving?.revision_id, "the control plane waits forever");
  if (target === null) {
    assert.deepEqual([replicas, route?.state], [[], "closed"]);
    return;
  }
  const isAsleep = report?.asleep === true;
  const wanted = isAsleep ? 0 : target.artifact.rollout === "handover" ? 1 : Math.max(1, target.min_replicas);
  assert.deepEqual(
    replicas.map(({ phase, run }) => [phase, run.revision_id]),
    Array(wanted).fill(["ready", target.revision_id]),
  );
  assert.deepEqual([route?.state, report?.target_phase], [isAsleep ? "asleep" : "open", "ready"]);
  assert.equal(route?.targets.length, wanted);
}

test("answers requests beside a long one until the drain timeout is over, and starts the wait again for another target", () => {
  const [first, second, third] = ["a", "b", "c"].map((name) => revisionRun(name, { rollout: "handover" })) as [
    RevisionRun,
    RevisionRun,
    RevisionRun,
  ];
  const world = new PlanWorld({ target: first });
  world.settleDown();
  world.requestArrives(0);
  const prepared = (target: RevisionRun) => {
    world.assign({ target });
    assert.equal(world.pass().route?.state, "open", "the revision is not prepared yet");
    if (world.preparation !== null) (world.preparation as Preparation).phase = "done";
  };
  const removals = () => world.pass().actions.filter(({ kind }) => kind === "remove").length;
  world.nowMs += 2_000;
  prepared(second);
  assert.equal(world.pass().route?.state, "open", "a long request is in flight");
  world.nowMs += drainTimeoutMs - 1;
  assert.equal(world.pass().route?.state, "open");

  prepared(third);
  world.nowMs += drainTimeoutMs - 1;
  assert.equal(world.pass().route?.state, "open", "the long request has its whole time again");
  world.nowMs += drainTimeoutMs;
  assert.equal(world.pass().route?.state, "held", "the drain timeout is over");
  assert.equal(removals(), 0);
  world.nowMs += 1_000;
  assert.equal(removals(), 1, "requests are held for a second before the long one is cut");
});

test("holds short requests for a moment only, and lets them through when one turns out to be long", () => {
  const [first, second] = ["a", "b"].map((name) => revisionRun(name, { rollout: "handover" })) as [
    RevisionRun,
    RevisionRun,
  ];
  const world = new PlanWorld({ target: first });
  world.settleDown();
  world.requestArrives(0);
  world.assign({ target: second });
  world.pass();
  if (world.preparation !== null) (world.preparation as Preparation).phase = "done";
  world.pass(); // asks for runs
  assert.equal(world.pass().route?.state, "held");
  world.nowMs += 1_000;
  assert.equal(world.pass().route?.state, "open", "the request did not end within a second");
  for (const replica of world.replicas) replica.inFlight = 0;
  world.pass();
  assert.equal(world.route?.state, "held");
  assert.equal(world.pass().actions.filter(({ kind }) => kind === "remove").length, 1);
});

/** The possible events between two passes. `turn` chooses among them. */
const happenings = {
  later(world: PlanWorld, turn: number) {
    world.nowMs += nth([0, 10, 1_000, 5_000, 31_000, 70_000, 700_000], turn) ?? 0;
  },
  becomesReady(world: PlanWorld, turn: number) {
    const starting = world.replicas.filter(({ phase, isBeingRemoved }) => phase === "starting" && !isBeingRemoved);
    const replica = nth(starting, turn);
    if (replica !== undefined) replica.phase = "ready";
  },
  isGone(world: PlanWorld, turn: number) {
    const gone = nth(
      world.replicas.filter(({ isBeingRemoved }) => isBeingRemoved),
      turn,
    );
    world.replicas = world.replicas.filter((replica) => replica !== gone);
  },
  exits(world: PlanWorld, turn: number) {
    const replica = nth(world.replicas, turn);
    if (replica !== undefined)
      world.exit(replica, nth(["Exited", "Lost", "PortTaken", "StartError", "EngineRefused"], turn));
  },
  requestArrives: (world: PlanWorld, turn: number) => world.requestArrives(turn),
  requestEnds(world: PlanWorld, turn: number) {
    const busy = world.replicas.filter(({ inFlight }) => inFlight > 0);
    const replica = nth(busy, turn);
    if (replica !== undefined) replica.inFlight -= 1;
    world.lastRequestAtMs = world.nowMs;
  },
  runsChange(world: PlanWorld, turn: number) {
    world.runs = nth([null, 0, 1, undefined], turn);
  },
  queueChanges(world: PlanWorld, turn: number) {
    const dueInMs = nth([null, 0, 30_000, 90_000, 4_000_000], turn) ?? null;
    world.planned = { isBusy: turn % 4 === 0, dueAtMs: dueInMs === null ? null : world.nowMs + dueInMs };
  },
  isPrepared(world: PlanWorld, turn: number) {
    if (world.preparation?.phase !== "running") return;
    const phase = turn % 2 === 0 ? "done" : "failed";
    world.preparation = { ...world.preparation, phase, message: "It is not there." };
  },
  settle: (world: PlanWorld) => void world.settle(),
  /** Like the control plane: the serving revision is the last one that was reported to carry the traffic. */
  newRevision(world: PlanWorld, turn: number) {
    if (world.assignment.op === "delete") return;
    world.settle();
    const rollout = turn % 3 === 0 ? "handover" : "rolling";
    const min_replicas = nth([0, 1, 1, 2, 3], turn) ?? 1;
    const engine = rollout === "rolling" && turn % 2 === 0 ? "postgres" : "own";
    const target = revisionRun(`rev-${world.assignment.generation}`, { rollout, engine, min_replicas });
    world.assign({ target, idle_after_ms: turn % 2 === 0 || min_replicas === 0 ? 60_000 : null });
  },
  interrupt: (world: PlanWorld) => world.assign({ target: world.assignment.serving }),
  scale(world: PlanWorld, turn: number) {
    const { target, serving, op } = world.assignment;
    if (op === "delete" || target === null) return;
    const scaled = { ...target, min_replicas: turn % 4 };
    const isSettled = serving?.revision_id === target.revision_id;
    world.assign({ target: scaled, serving: isSettled ? scaled : serving });
  },
  restart: (world: PlanWorld) => world.restart(),
  delete(world: PlanWorld, turn: number) {
    if (turn % 4 === 0) world.assign({ op: "delete", target: null, serving: null });
  },
};

/** Returns a random item, or undefined for an empty list. */
function nth<T>(items: T[], turn: number): T | undefined {
  return items[turn % Math.max(1, items.length)];
}

type Name = keyof typeof happenings;

const often: Name[] = ["later", "becomesReady", "isGone", "exits", "requestArrives", "newRevision", "settle"];
const happening = fc.tuple(
  fc.constantFrom<Name[]>(...(Object.keys(happenings) as Name[]), ...often, ...often),
  fc.nat({ max: 1_000 }),
);
