import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListId } from "../../src/client/calls.ts";
import { createClient } from "../../src/client/client.ts";
import type { listenerProtocolOperations } from "../../src/contract/listeners/operations-listener-protocol.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { type OperationId, operations } from "../../src/contract/operations.ts";

/** Fails to compile unless it is given exactly `true`. */
function holds<T extends true>(..._types: T[]): void {}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** A file, by `downloadBackup`; of listeners, of code hosts and of browsers; an archive goes to its signed URL, by `uploadArchive`. */
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
    );
const client = createClient({ baseUrl: "http://127.0.0.1:1" });
type Client = typeof client;
const table: Operation[] = Object.values(operations);

test("the client has a method for every operation of the table, the compiler says so", () => {
  holds<Equal<Exclude<OperationId, keyof Client>, NotCalled>>();
  for (const { id, audience, response } of table) {
    const isOthers = ["putUpload", "receiveGithubWebhook", "receiveHostWebhook", "getBackup"].includes(id);
    assert.equal(id in client, !(audience === "listener" || response.isPage === true || isOthers), id);
  }
});

test("answers, bodies and parameters have the types of their schemas", () => {
  type Revision = Awaited<ReturnType<Client["getRevision"]>>;
  holds<Equal<Revision["triggered_by"], "api" | "push" | "pull_request" | "redeploy" | "tier" | "system">>();
  holds<Equal<Awaited<ReturnType<Client["deleteDeployment"]>>, undefined>>();
  const wrong = [
    // @ts-expect-error A body that is needed.
    () => client.createDeployment(),
    // @ts-expect-error A field that is needed.
    () => client.createDeployment({ body: { name: "a", source: "github", source_config: {} } }),
    // @ts-expect-error A source that there is not.
    () => client.createDeployment({ body: { source: "gitlab", source_config: {}, source_revision_config: {} } }),
    // @ts-expect-error An id that is needed.
    () => client.getDeployment(),
    // @ts-expect-error A parameter that is needed.
    () => client.getRevisionLogs({ deployment_id: "", revision_id: "" }),
    // @ts-expect-error No list.
    () => client.all("getDeployment", { deployment_id: "" }),
    // @ts-expect-error The place in a list is not for the caller to say.
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

test("parameters that are needed are those the types need: the others have a default", () => {
  const needed = new Set<string>();
  for (const { query } of called) {
    const { properties = {}, required = [] } = propertiesOf(query);
    for (const name of required) if (properties[name]?.default === undefined) needed.add(name);
  }
  assert.deepEqual([...needed].toSorted(), ["deployment_id", "deployment_ids", "provider_id", "repo_url", "type"]);
});

test("every list of the table can be read page after page, and nothing else can", () => {
  const lists: Record<ListId, true> = listed;
  const paged = called.filter(({ response }) => {
    const { properties = {} } = propertiesOf(response.schema);
    return (
      ("resources" in properties && "offset" in properties) || ("items" in properties && "next_cursor" in properties)
    );
  });
  assert.deepEqual(Object.keys(lists).toSorted(), paged.map(({ id }) => id).toSorted());
});

/** The compiler asks for a new list here, and for one that is gone. */
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
  listWebhooks: true,
  listWebhookDeliveries: true,
  listIntegrations: true,
  pageGithubInstallations: true,
  pageGithubRepositories: true,
  pageForgeInstallations: true,
};
