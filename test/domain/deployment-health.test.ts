import assert from "node:assert/strict";
import { test } from "node:test";
import { buildFailureReasons } from "../../src/builds/failure.ts";
import { healthWords } from "../../src/contract/deployments/health.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { type FailureCode, failureCodes } from "../../src/contract/revisions/failure.ts";
import { type HealthFacts, healthOf, nextActionOf, withDeploymentName } from "../../src/domain/deployment-health.ts";
import { buildFailure } from "../../src/domain/failures.ts";

const active = "11111111-0000-4000-8000-000000000000";
const newer = "22222222-0000-4000-8000-000000000000";

const exited = { reason: "Exited", message: "It exited with code 1.", exit_code: 1, signal: null, last_lines: [] };

/** A report of `ready` ready replicas of the active revision. */
function reportOf(ready: number, given: Partial<DeploymentReport> = {}): NonNullable<HealthFacts["report"]> {
  const replica = {
    phase: "ready",
    address: null,
    restarts: 0,
    started_at: null,
    limits: { memory: "", cpu: "" },
  } as const;
  const replicas = Array.from({ length: ready }, (_, n) => ({ ...replica, replica_id: `r${n}`, revision_id: active }));
  return { asleep: false, cause: null, serving_revision_id: active, replicas, ...given };
}

const serving: HealthFacts = {
  status: "READY",
  activeRevisionId: active,
  isUnderWay: false,
  latest: { id: active, status: "DEPLOYED", message: null, failure: null },
  replicasMin: 1,
  report: reportOf(1),
};

const failed = (status: "BUILD_FAILED" | "DEPLOY_FAILED" | "CREATE_FAILED") => ({
  id: newer,
  status,
  message: "npm ended with code 1",
  failure: null,
});

/** Each state that a user can meet, and the health that it must show. */
const cases: readonly [name: string, facts: Partial<HealthFacts>, word: string, reason: string | null][] = [
  ["a deployment that serves", {}, "live", null],
  [
    "a new deployment whose database is being made",
    { status: "AWAITING_DATABASE", activeRevisionId: null, latest: null, report: null },
    "deploying",
    null,
  ],
  [
    "a first revision that is being built",
    { activeRevisionId: null, isUnderWay: true, report: null },
    "deploying",
    null,
  ],
  ["a newer revision under way beside one that serves", { isUnderWay: true }, "deploying", null],
  [
    "a first build that failed",
    { activeRevisionId: null, latest: failed("BUILD_FAILED"), report: null },
    "failed",
    "BuildFailed",
  ],
  [
    "a first rollout that failed",
    { activeRevisionId: null, latest: failed("DEPLOY_FAILED"), report: null },
    "failed",
    "RolloutFailed",
  ],
  [
    "a source that could not be read",
    { activeRevisionId: null, latest: failed("CREATE_FAILED"), report: null },
    "failed",
    "CreateFailed",
  ],
  [
    "a first deploy that was stopped",
    {
      activeRevisionId: null,
      latest: { id: newer, status: "INTERRUPTED", message: "Stopped on request.", failure: null },
      report: null,
    },
    "failed",
    "Stopped",
  ],
  [
    "a deployment that waits for its first upload",
    { activeRevisionId: null, latest: null, report: null },
    "unknown",
    "NothingDeployed",
  ],
  [
    "a newer build that failed beside a revision that serves",
    { latest: failed("BUILD_FAILED") },
    "degraded",
    "NewRevisionFailed",
  ],
  [
    "a revision before a failed one, whose server is starting again",
    { latest: failed("DEPLOY_FAILED"), report: reportOf(0) },
    "degraded",
    "NewRevisionFailed",
  ],
  [
    "a server that exited after a newer revision failed",
    { latest: failed("DEPLOY_FAILED"), report: reportOf(0, { cause: exited, crash_streak: 1 }) },
    "degraded",
    "Exited",
  ],
  [
    "a server that exited once and is started again",
    { report: reportOf(0, { cause: exited, crash_streak: 1 }) },
    "degraded",
    "Exited",
  ],
  [
    "a server that is up again after an exit",
    { report: reportOf(1, { cause: exited, crash_streak: 2 }) },
    "live",
    null,
  ],
  [
    "objects in a cluster that were changed by hand",
    { report: reportOf(1, { cause: { ...exited, reason: "Drifted", message: "Changed by hand: replicas." } }) },
    "degraded",
    "Drifted",
  ],
  [
    "a server that exits soon after each start",
    { report: reportOf(0, { cause: exited, crash_streak: 3 }) },
    "crash_looping",
    "Exited",
  ],
  [
    "a crash loop that is up for a moment",
    { report: reportOf(1, { cause: exited, crash_streak: 7 }) },
    "crash_looping",
    "Exited",
  ],
  [
    "a crash loop while a fix is being deployed",
    { isUnderWay: true, report: reportOf(0, { cause: exited, crash_streak: 5 }) },
    "crash_looping",
    "Exited",
  ],
  [
    "a server without memory",
    { report: reportOf(0, { cause: { ...exited, reason: "OutOfMemory" }, crash_streak: 4 }) },
    "crash_looping",
    "OutOfMemory",
  ],
  ["two of three replicas", { replicasMin: 3, report: reportOf(2) }, "degraded", "ReplicasMissing"],
  ["no ready replica without a cause", { report: reportOf(0) }, "degraded", "ReplicasMissing"],
  [
    "a ready replica of an old revision only",
    { activeRevisionId: newer, latest: { id: newer, status: "DEPLOYED", message: null, failure: null } },
    "degraded",
    "ReplicasMissing",
  ],
  ["a deployment scaled to zero", { replicasMin: 0, report: reportOf(0, { asleep: true }) }, "sleeping", null],
  [
    "a crash loop that fell asleep",
    { replicasMin: 0, report: reportOf(0, { asleep: true, cause: exited, crash_streak: 4 }) },
    "sleeping",
    null,
  ],
  [
    "a listener that went silent during a crash loop",
    { status: "UNKNOWN", report: reportOf(0, { cause: exited, crash_streak: 4 }) },
    "unknown",
    "ListenerLost",
  ],
  [
    "a deployment that exited once before it was scaled to zero",
    { replicasMin: 0, report: reportOf(0, { asleep: true, cause: exited, crash_streak: 1 }) },
    "sleeping",
    null,
  ],
  ["a deployment that wakes", { replicasMin: 0, report: reportOf(0) }, "sleeping", null],
  [
    "a deployment scaled to zero whose newest build failed",
    { replicasMin: 0, report: reportOf(0, { asleep: true }), latest: failed("BUILD_FAILED") },
    "sleeping",
    null,
  ],
  ["a listener that went silent", { status: "UNKNOWN" }, "unknown", "ListenerLost"],
  ["a listener that has not reported yet", { report: null }, "unknown", "NoReport"],
  ["a delete under way", { status: "AWAITING_DELETE" }, "deleting", null],
  ["the end of a delete", { status: "AWAITING_FINAL_DELETE", isUnderWay: true }, "deleting", null],
];

for (const [name, facts, word, reason] of cases) {
  test(`${name}: ${word}`, () => {
    const health = healthOf({ ...serving, ...facts });
    assert.deepEqual([health.word, health.reason], [word, reason]);
    const isFine = ["live", "deploying", "sleeping", "deleting"].includes(word);
    assert.equal(health.message === null, isFine, `message: ${health.message}`);
    assert.equal(nextActionOf(health) === null, isFine, "what to do next");
  });
}

test("the cases cover every health status", () => {
  assert.deepEqual([...new Set(cases.map(([, , word]) => word))].sort(), [...healthWords].sort());
});

test("says that the revision before a failed one is starting again, not that it serves", () => {
  const given = { ...serving, latest: failed("DEPLOY_FAILED") };
  assert.match(
    healthOf({ ...given, report: reportOf(0) }).message ?? "",
    /^The newest revision failed, and the one before is starting again\. npm ended/,
  );
  assert.match(
    healthOf(given).message ?? "",
    /^The newest revision failed, and the one before still serves\. npm ended/,
  );
});

test("keeps the start of a long message, and whole characters", () => {
  const message = "😀".repeat(2_000);
  const { message: kept } = healthOf({
    ...serving,
    activeRevisionId: null,
    latest: { ...failed("BUILD_FAILED"), message },
  });
  assert.ok(kept?.isWellFormed() && kept.length <= 1_000, kept ?? "none");
});

test("keeps the sentence and the last lines of a long message with the end of a log", () => {
  const lines = Array.from({ length: 20 }, (_, n) => `line ${n} ${"x".repeat(40)}`);
  const message = ["It ended.", ...lines, "ValueError: no model"].join("\n");
  const shown = healthOf({ ...serving, activeRevisionId: null, latest: { ...failed("DEPLOY_FAILED"), message } });
  assert.ok((shown.message ?? "").length <= 500);
  assert.match(shown.message ?? "", /^It ended\.\n…\nline \d+ x{40}\n(?:line .*\n)*ValueError: no model$/);
});

test("shows the start of a last line that is too long, instead of the lines above it", () => {
  const last = `ModuleNotFoundError: it was renamed, ${"see the guide ".repeat(40)}`;
  const message = ["It ended.", "Traceback (most recent call last):", last].join("\n");
  const shown = healthOf({ ...serving, activeRevisionId: null, latest: { ...failed("DEPLOY_FAILED"), message } });
  assert.ok((shown.message ?? "").length <= 500);
  assert.match(shown.message ?? "", /^It ended\.\n…\nModuleNotFoundError: it was renamed, see the guide .*…$/);
});

test("names the way out of each failure that a listener reports, and not only the log", () => {
  const wayOut: readonly [reason: string, kind: string, text: RegExp][] = [
    ["Exited", "read_log", /log .* deploy a fix\./],
    ["OutOfMemory", "deploy", /more memory/],
    ["OutOfDisk", "deploy", /Reduce .* operator for more disk/],
    ["NotHealthy", "read_log", /health path and the port/],
    ["StartError", "deploy", /start command or the image/],
    ["InitFailed", "read_log", /init container/],
    ["EngineRefused", "check_listener", /container engine/],
    ["PortTaken", "deploy", /^Deploy again\. Pierhead then chooses another port/],
    ["Lost", "deploy", /^Deploy again\./],
    ["ImagePull", "deploy", /credentials of its registry/],
    ["Unschedulable", "deploy", /more room/],
    ["Forbidden", "deploy", /quota/],
    ["Storage", "deploy", /StorageClass/],
    ["Evicted", "deploy", /lower requests/],
  ];
  for (const [reason, kind, text] of wayOut) {
    const cause = { ...exited, reason };
    for (const [word, given] of [
      ["degraded", { cause }],
      ["crash_looping", { cause, crash_streak: 3 }],
    ] as const) {
      const health = healthOf({ ...serving, report: reportOf(0, given) });
      assert.deepEqual([health.word, health.reason], [word, reason]);
      const action = nextActionOf(health);
      assert.equal(action?.kind, kind, reason);
      assert.match(action?.text ?? "", text);
    }
  }
});

test("derives what to do about a failed revision from its failure, and from the message of an earlier version", () => {
  const health = (code: FailureCode, variables: string[] = []) =>
    healthOf({
      ...serving,
      activeRevisionId: null,
      latest: { ...failed("DEPLOY_FAILED"), failure: { code, variables } },
    });
  for (const code of failureCodes) assert.ok(nextActionOf(health(code, ["MODEL_KEY"]))?.text, code);
  const missing = nextActionOf(health("variables_missing", ["MODEL_KEY", "REGION"]));
  assert.deepEqual(missing, {
    kind: "set_variable",
    text: "Set the variables MODEL_KEY, REGION. The same code then runs with them.",
  });
  const message = "MODEL_KEY is not set. Set it with: pierhead env set DEPLOYMENT MODEL_KEY.";
  const earlier = nextActionOf({ word: "failed", reason: "RolloutFailed", message, failure: null });
  assert.match(earlier?.text ?? "", /^Set the variable MODEL_KEY\./);
});

test("names the deployment in the commands of drivers and builds", () => {
  const named = (text: string) => withDeploymentName(text, "support");
  assert.equal(
    named("Set it with: pierhead env set DEPLOYMENT KEY. Change it: pierhead change NAME --engine file"),
    "Set it with: pierhead env set support KEY. Change it: pierhead change support --engine file",
  );
});

test("offers a rollback only where an earlier revision served", () => {
  const health = healthOf({ ...serving, report: reportOf(0, { cause: exited, crash_streak: 3 }) });
  assert.match(nextActionOf(health)?.text ?? "", /deploy a fix\.$/);
  assert.match(nextActionOf(health, { canRollBack: true })?.text ?? "", /deploy a fix or roll back\.$/);
});

test("says what to do about a failure that only a newer version knows", () => {
  const failure = { code: "of_a_newer_version" as FailureCode, variables: [] };
  const action = nextActionOf({ word: "failed", reason: "BuildFailed", message: "It failed.", failure });
  assert.equal(action?.kind, "read_log");
});

test("has a code for each reason of a failed build", () => {
  for (const reason of buildFailureReasons.filter((one) => one !== "Cancelled" && one !== "BuildFailed"))
    assert.notEqual(buildFailure(reason).code, "build_failed", reason);
});
