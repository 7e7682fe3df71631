import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListId } from "../../src/client/calls.ts";
import { createClient } from "../../src/client/client.ts";
import type { listenerProtocolOperations } from "../../src/contract/listeners/operations-listener-protocol.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { type OperationId, operations } from "../../src/contract/operations.ts";

/** Fails to compile unless its argument is exactly `true`. */
function holds<T extends true>(..._types: T[]): void {}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** Operations without a method: a file (`downloadBackup`), those of listeners, code hosts and browsers, and the upload (`uploadArchive`). */
type NotCalled =
  | keyof typeof listenerProtocolOperations
  | (
      | "getBackup"
      | "putUpload"
      | "receiveGithubWebhook"
      | "receiveHostWebhook"
      | "receiveCallback"
      | "receiveCallbackAlias"
      | "setupGithubApp"
      | "beginSignIn"
      | "finishSignIn"
      | "showGithubAppForm"
      | "finishGithubApp"
      | "callMcp"
    );
const client = createClient({ baseUrl: "http://127.0.0.1:1" });
type Client = typeof client;
const table: Operation[] = Object.values(operations);

test("the client type has a method for every operation in the table", () => {
  holds<Equal<Exclude<OperationId, keyof Client>, NotCalled>>();
  for (const { id, audience, response } of table) {
    const isOthers = ["callMcp", "putUpload", "receiveGithubWebhook", "receiveHostWebhook", "getBackup"].includes(id);
    assert.equal(id in client, !(audience === "listener" || response.isPage === true || isOthers), id);
  }
});

test("results, bodies and parameters have the types of their schemas", () => {
  type Revision = Awaited<ReturnType<Client["getRevision"]>>;
  holds<Equal<Revision["triggered_by"], "api" | "push" | "pull_request" | "redeploy" | "tier" | "system">>();
  holds<Equal<Awaited<ReturnType<Client["deleteDeployment"]>>, undefined>>();
  const wrong = [
    // @ts-expect-error A required body.
    () => client.createDeployment(),
    // @ts-expect-error A required field.
    () => client.createDeployment({ body: { name: "a", source: "github", source_config: {} } }),
    // @ts-expect-error An unknown source.
    () => client.createDeployment({ body: { source: "gitlab", source_config: {}, source_revision_config: {} } }),
    // @ts-expect-error A required id.
    () => client.getDeployment(),
    // @ts-expect-error A required parameter.
    () => client.getRevisionLogs({ deployment_id: "", revision_id: "" }),
    // @ts-expect-error Not a list.
    () => client.all("getDeployment", { deployment_id: "" }),
    // @ts-expect-error The caller cannot set the position in a list.
    () => client.all("listDeployments", { offset: 1 }),
  ];
  assert.equal(wrong.length, 7);
  const right = [
    () => client.createRevision({ deployment_id: "" }),
    () => client.all("listRevisions", { deployment_id: "", status: "DEPLOYED" }),
    () => client.all("listDeployments"),
  ];
  assert.equal(right.length, 3);
});

const called = table.filter(({ id }) => id in client);
const propertiesOf = (schema: unknown) =>
  (schema ?? {}) as { properties?: Record<string, { default?: unknown }>; required?: string[] };

test("only parameters without a default are required by the types", () => {
  const needed = new Set<string>();
  for (const { query } of called) {
    const { properties = {}, required = [] } = propertiesOf(query);
    for (const name of required) if (properties[name]?.default === undefined) needed.add(name);
  }
  assert.deepEqual([...needed].toSorted(), [
    "deployment_id",
    "deployment_ids",
    "provider_id",
    "repo_url",
    "type",
    "user_code",
  ]);
});

test("`all` accepts every list of the table and nothing else", () => {
  const lists: Record<ListId, true> = listed;
  const paged = called.filter(({ response }) => {
    const { properties = {} } = propertiesOf(response.schema);
    return (
      ("resources" in properties && "offset" in properties) || ("items" in properties && "next_cursor" in properties)
    );
  });
  assert.deepEqual(Object.keys(lists).toSorted(), paged.map(({ id }) => id).toSorted());
});

/** Fails to compile when a list is missing here, or when a listed operation no longer exists. */
const listed: Record<ListId, true> = {
  listDeployments: true,
  listRevisions: true,
  listDeploymentLogs: true,
  listListeners: true,
  listOrganizations: true,
  listWorkspaces: true,
  listApiKeys: true,
  listMembers: true,
  listAuditLog: true,
  listTags: true,
  listAlerts: true,
  listVariableGroups: true,
  listWebhooks: true,
  listWebhookDeliveries: true,
  listIntegrations: true,
  pageGithubInstallations: true,
  pageGithubRepositories: true,
  pageForgeInstallations: true,
};
