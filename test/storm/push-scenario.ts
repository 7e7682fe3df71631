import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { ServerUnreachable } from "../../src/client/client.ts";
import type { FaultPoint } from "../../src/store/engine/fault-points.ts";
import { type Github, webhookSecret } from "../hosts/github-server.ts";
import { pushOf } from "../hosts/recorded-messages.ts";
import { type AgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import {
  callOf,
  createOnce,
  expectStatus,
  expectVersion,
  ignoreGone,
  persist,
  type Survivor,
  settleTimeoutMs,
} from "./scenario.ts";

const pushPoints: readonly (FaultPoint | string)[] = ["branch polled", "push received", "push revisions created"];

/** Returns whether a fault point belongs to a push. Then the rest of the scenario is skipped. */
export const isOfPush = (points: string[]) => points.every((point) => pushPoints.includes(point));

/**
 * Follows a commit from its host's webhook to the replica that answers. The host repeats an unanswered webhook. Deletes everything
 * at the end. Throws when the push was lost or built twice.
 */
export async function pushThrough(
  survivor: Survivor,
  { repository, github }: { repository: AgentRepository; github: Github },
  name: string,
): Promise<void> {
  const call = callOf(survivor);
  const body = { installation_id: 41, workspace_id: survivor.current().workspaceId };
  const integration = await call((api) => api.attachInstallation({ body }));
  const first = await repository.commit(nodeAgent(`${name}-1`));
  const source = { repo_url: `${github.origin}/acme/bot`, build_on_push: true, integration_id: integration.id };
  const { deployment_id: id, revision_id } = await call((api) => createOnce(api, source, name, "main"));
  await expectStatus(call, id, revision_id, "DEPLOYED");
  survivor.settled();
  await eventually(
    () => call((api) => api.getGitSettings({ deployment_id: id })),
    ({ followed }) => followed?.commit_sha === first,
    { what: "a first poll of the branch", timeoutMs: settleTimeoutMs },
  );

  const second = await repository.commit(nodeAgent(`${name}-2`));
  await tell(survivor, JSON.stringify(pushOf("acme/bot", "main", second, github.origin)));
  const revisions = await eventually(
    async () => (await call((api) => api.listRevisions({ deployment_id: id }))).resources,
    ([newest]) => newest?.triggered_by === "push",
    { what: "a revision of the push", timeoutMs: settleTimeoutMs },
  );
  await expectStatus(call, id, revisions[0]?.id ?? "", "DEPLOYED");
  await expectVersion(survivor, call, id, `${name}-2`);
  const { resources } = await call((api) => api.listRevisions({ deployment_id: id }));
  assert.equal(resources.length, 2, `a push was built twice: ${resources.map((one) => one.status)}`);

  await call((api) => api.deleteDeployment({ deployment_id: id }).catch(ignoreGone));
  await call((api) => api.waitForDeletion({ deployment_id: id }, { timeoutMs: settleTimeoutMs }));
  // The next scenario has its own host.
  await call((api) => api.deleteIntegration({ integration_id: integration.id }).catch(ignoreGone));
}

/** Sends the host's webhook, always with the same delivery id. */
async function tell(survivor: Survivor, body: string): Promise<void> {
  const headers = {
    "x-github-event": "push",
    "x-github-delivery": randomUUID(),
    "x-hub-signature-256": `sha256=${createHmac("sha256", webhookSecret).update(body).digest("hex")}`,
  };
  const status = await persist(survivor, async () => {
    const address = `${survivor.current().url}/v1/integrations/github/webhook`;
    const response = await fetch(address, { method: "POST", body, headers }).catch((error: unknown) => {
      throw new ServerUnreachable(address, "the server is gone", { cause: error });
    });
    return response.status;
  });
  assert.equal(status, 202);
}
