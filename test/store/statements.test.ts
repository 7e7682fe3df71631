import assert from "node:assert/strict";
import { test } from "node:test";
import { parseLogQuery } from "../../src/domain/log-query.ts";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { claimBuild } from "../../src/store/builds/builds.ts";
import { claimImageRemoval } from "../../src/store/builds/image-removals.ts";
import { receiveHostMessage, recordBranchPoll } from "../../src/store/code-hosts/branch-watches.ts";
import { listPreviews, recordPreview } from "../../src/store/code-hosts/previews.ts";
import { hasCommitSince } from "../../src/store/code-hosts/pushes.ts";
import { compareInventory, writeAssignment } from "../../src/store/data-plane/assignments.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import { deploymentPage } from "../../src/store/deployments/deployment-list.ts";
import { readDeploymentState } from "../../src/store/deployments/deployment-state.ts";
import { lockDeployment, moveDeployment } from "../../src/store/deployments/deployments.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { findOpenTransactions, readNewEvents } from "../../src/store/events/events.ts";
import { appendLogEntries } from "../../src/store/logs/log-entries.ts";
import { searchLogStep } from "../../src/store/logs/search-logs.ts";
import { moveOldLines } from "../../src/store/maintenance/log-archive.ts";
import {
  dropLogEntries,
  dropSupersededArtifacts,
  trimAuditLog,
  trimLogEntries,
} from "../../src/store/maintenance/retention.ts";
import { claimAuthRequest, failInterruptedSignIns } from "../../src/store/oauth/oauth-requests.ts";
import { findTokensInExcess, findUsableTokens } from "../../src/store/oauth/oauth-tokens.ts";
import { claim, enqueue, failPass, nextRunAt, settlePass } from "../../src/store/queue/reconcile-queue.ts";
import { listRevisions, moveRevision } from "../../src/store/revisions/revisions.ts";
import { findQuotas, readUsage } from "../../src/store/tenants/quotas.ts";
import { findMemberships } from "../../src/store/tenants/sessions.ts";
import { consumeSignIn } from "../../src/store/tenants/sign-ins.ts";
import { claimDeliveries, createDeliveries } from "../../src/store/webhooks/webhook-deliveries.ts";

const id = "00000000-0000-4000-8000-000000000000";
const at = new Date(0);
const pass = { deploymentId: id, owner: "server", generation: 1 };
const move = { because: "test", message: null, deadlineAt: null };

/** The hand-written statements, by family: how each store function sends them. */
const families: Record<string, Record<string, (db: Db) => Promise<unknown>>> = {
  queue: {
    enqueue: (db) => enqueue(db, id),
    claim: (db) => claim(db, { owner: "server", limit: 16, leaseMs: 30_000 }),
    settlePass: (db) =>
      settlePass(db, { ...pass, outcome: { kind: "done", because: "", durationMs: 1 }, retryAt: null }),
    failPass: (db) => failPass(db, { ...pass, because: "", durationMs: 1 }),
    nextRunAt: (db) => nextRunAt(db),
  },
  deployments: {
    lockDeployment: (db) => db.transaction((trx) => lockDeployment(trx, id, id)),
    readDeploymentState: (db) => readDeploymentState(db, id),
    moveDeployment: (db) => moveDeployment(db, id, { from: "AWAITING_DATABASE", to: "READY" }),
    deploymentPage: (db) => db.query(deploymentPage(id, {}, { limit: 20, offset: 0 })),
    "deploymentPage with a part of the name": (db) =>
      db.query(deploymentPage(id, { nameContains: "agent" }, { limit: 20, offset: 0 })),
  },
  revisions: {
    listRevisions: (db) => listRevisions(db, id, id, { statuses: null, limit: 20, offset: 0 }),
    moveRevision: (db) => moveRevision(db, { id, deploymentId: id }, { ...move, from: "CREATING", to: "QUEUED" }),
  },
  builds: {
    saveArtifact: (db) => saveArtifact(db, id, "key", {} as never),
    claimImageRemoval: (db) => claimImageRemoval(db, id),
    claimBuild: (db) => claimBuild(db, { id, deploymentId: id }, { owner: "server", leaseMs: 30_000, deadlineAt: at }),
  },
  "data-plane": {
    writeAssignment: (db) => {
      const made = { deployment_id: id, tenant_id: id, listener_id: id, slug: "a", op: "apply", seen: 0 } as const;
      return writeAssignment(db, { ...made, target: null, serving: null, idle_after_ms: null });
    },
    compareInventory: (db) => compareInventory(db, id, { items: [] }),
    addMetricSamples: (db) => addMetricSamples(db, { listenerId: id, epoch: 1 }, []),
  },
  logs: {
    appendLogEntries: (db) => {
      const line = { deployment_id: id, revision_id: id, kind: "build", replica_id: null, stream: "stdout" } as const;
      return appendLogEntries(db, [{ ...line, level: "INFO", logged_at: at, message: "", line_key: null }]);
    },
    searchLogStep: (db) => {
      const query = { ...parseLogQuery("level:error replica:a revision:1"), deploymentIds: null, notDeploymentIds: [] };
      const before = { atMs: 0, id: 0 };
      const size = { lines: 100, bytes: 65_536, limit: 10 };
      return searchLogStep(db, { tenantId: id, query, startAt: at, before, ...size, stepMs: 1_000 });
    },
  },
  oauth: {
    findUsableTokens: (db) => findUsableTokens(db, { tenantId: id, userId: "ann", agentId: "agent" }, id),
    findTokensInExcess: (db) => findTokensInExcess(db, {} as never, { tenantId: id, userId: "ann", agentId: null }, id),
    "findTokensInExcess of an agent": (db) =>
      findTokensInExcess(db, {} as never, { tenantId: id, userId: null, agentId: "agent" }, id),
    claimAuthRequest: (db) => claimAuthRequest(db, id, "server"),
    failInterruptedSignIns: (db) => failInterruptedSignIns(db, { owner: "server" }),
  },
  "code-hosts": {
    recordBranchPoll: (db) => {
      const branch = { deploymentId: id, tenantId: id, repoKey: "key", ref: "main", commitSha: null };
      return recordBranchPoll(db, { ...branch, messageCount: 0, handled: [], nextInMs: 60_000, error: null });
    },
    receiveHostMessage: (db) => {
      const event = { branch: "main", commitSha: null };
      return receiveHostMessage(db, { names: ["1"], repoKeys: ["key"], events: [event], integration: null });
    },
    listPreviews: (db) => listPreviews(db, id),
    recordPreview: (db) => recordPreview(db, { parentId: id, number: 1, tenantId: id, deploymentId: id, headSha: "" }),
    hasCommitSince: (db) => hasCommitSince(db, { deploymentId: id, commitSha: "", since: at }),
  },
  tenants: {
    findQuotas: (db) => findQuotas(db, id),
    readUsage: (db) => readUsage(db, id),
    findMemberships: (db) => findMemberships(db, "ann@example.org"),
    consumeSignIn: (db) => consumeSignIn(db, Buffer.alloc(32)),
  },
  events: {
    readNewEvents: (db) => readNewEvents(db, { above: 0, numbers: [], limit: 100 }),
    findOpenTransactions: (db) => findOpenTransactions(db),
  },
  maintenance: {
    trimAuditLog: (db) => trimAuditLog(db, { days: 30 }, AbortSignal.timeout(60_000)),
    trimLogEntries: (db) => trimLogEntries(db, { days: 30, linesMax: 1_000 }, AbortSignal.timeout(60_000)),
    moveOldLines: (db) =>
      moveOldLines(db, { before: at, linesMax: 1_000 }, async () => {}, AbortSignal.timeout(60_000)),
    dropLogEntries: (db) => dropLogEntries(db, id, AbortSignal.timeout(60_000)),
    dropSupersededArtifacts: (db) => dropSupersededArtifacts(db, 10),
  },
  webhooks: {
    createDeliveries: (db) => createDeliveries(db, 10),
    claimDeliveries: (db) =>
      claimDeliveries(db, { owner: "server", limit: 16, leaseMs: 30_000, shares: { listed: new Map(), others: 8 } }),
  },
};

// After a change: `node --test-update-snapshots test/store/statements.test.ts`, and read what changed.
for (const [family, statements] of Object.entries(families)) {
  test(`sends the ${family} statements of the snapshot`, async (context) => {
    const texts: string[] = [];
    for (const [name, act] of Object.entries(statements)) {
      const sent = await statementsOf(act);
      assert.ok(sent.length > 0, `${name} sent nothing`);
      for (const text of sent) texts.push(`-- ${name}\n${text.trim()};\n`);
    }
    const file = `test/store/snapshots/${family}.sql`;
    context.assert.fileSnapshot(texts.join("\n"), file, { serializers: [(text) => text] });
  });
}

/** Runs a store function over a database that answers nothing, and returns the texts it sent. */
async function statementsOf(act: (db: Db) => Promise<unknown>): Promise<string[]> {
  const sent: string[] = [];
  const trx = {
    isTransaction: true,
    async query({ text }: { text: string }) {
      sent.push(text);
      // As if all events up to 10 were settled and none delivered.
      return { rows: text.includes("events_id_seq") ? [{ from: 0, upTo: 10, given: 10 }] : [], rowCount: 0 };
    },
  };
  const db = {
    ...trx,
    now: () => at,
    transaction: (run: (inside: typeof trx) => Promise<unknown>) => run(trx),
    reached: () => {},
    logSignal: { notify: () => {} },
  };
  // What a function makes of no rows is not tested here.
  await act(db as unknown as Db).catch(() => undefined);
  return sent;
}
