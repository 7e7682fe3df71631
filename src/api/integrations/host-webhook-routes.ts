import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { errors } from "../../contract/error.ts";
import type { CodeHost } from "../../contract/integrations/integration.ts";
import { operations } from "../../contract/operations.ts";
import { urlLengthMax } from "../../domain/limits.ts";
import { isPlainText } from "../../domain/plain-text.ts";
import { isValidRef } from "../../domain/refs.ts";
import { repositoryKey } from "../../domain/repository-key.ts";
import { readHostEvents } from "../../integrations/webhook-event.ts";
import { carriesProof, deliveryIdOf, isSigned } from "../../integrations/webhook-signature.ts";
import { type HostMessage, receiveHostMessage } from "../../store/code-hosts/branch-watches.ts";
import { openIntegration } from "../../store/code-hosts/integrations.ts";
import { type Api, type Handler, openRoute } from "../http/route.ts";

/** Branches of one message that are polled at once. The regular poll finds the others. */
const branchesMax = 50;

/** Hosts name a repository by three addresses. */
const addressesMax = 10;

/**
 * Adds the routes that receive webhooks of code hosts. An authenticated message only schedules a poll of the branches
 * that it names. What gets deployed is what the branch contains when it is polled. So a message costs two small statements, however
 * much work follows.
 */
export function addHostWebhookRoutes(api: Api): void {
  const { db, sealer, github } = api.deps;

  const admit = ({ headers }: FastifyRequest) => {
    if (!carriesProof(headers)) throw errors.webhookUnsigned();
  };

  const fromGithub: Handler<typeof operations.receiveGithubWebhook, null> = async ({ request }) => {
    const secret = (await github.current())?.webhookSecret ?? "";
    return receive(request, { host: "github", secret, scope: "app", integration: null });
  };
  openRoute(api, operations.receiveGithubWebhook, fromGithub, { admit });

  const fromHost: Handler<typeof operations.receiveHostWebhook, null> = async ({ params, request }) => {
    const open = await openIntegration(db, sealer, { tenantId: null, id: params.integration_id });
    if (open === undefined || open.row.installation_id !== null) throw errors.webhookUnsigned();
    const { id, tenant_id: tenantId, host } = open.row;
    return receive(request, { host, secret: open.secrets.webhookSecret, scope: id, integration: { tenantId, id } });
  };
  openRoute(api, operations.receiveHostWebhook, fromHost, { admit });

  async function receive(
    request: FastifyRequest,
    sender: { host: CodeHost; secret: string; scope: string; integration: HostMessage["integration"] },
  ) {
    const { host, secret, scope, integration } = sender;
    const body = (request.body as Buffer | undefined) ?? Buffer.alloc(0);
    if (!isSigned(host, request.headers, body, secret)) throw errors.webhookUnsigned();
    const events = readHostEvents(host, request.headers, body)
      .filter(({ branch }) => isPlainText(branch) && isValidRef(branch))
      .slice(0, branchesMax);
    if (events.length === 0) return { status: "ignored" as const };
    // Most hosts sign only the content, so the same content with another delivery id is the same message.
    const id = deliveryIdOf(request.headers);
    const names = [`${scope}/content/${createHash("sha256").update(body).digest("hex")}`];
    if (id !== null) names.push(`${scope}/id/${id}`);
    const repoKeys = keysOf(events[0]?.urls ?? []);
    const scheduled = await receiveHostMessage(db, { names, repoKeys, events, integration });
    return { status: scheduled === undefined ? ("repeated" as const) : ("accepted" as const) };
  }
}

/** Returns the keys of the repository of a message. An address that is longer than a deployment may have belongs to none. */
const keysOf = (urls: readonly string[]) =>
  urls
    .filter((url) => url.length <= urlLengthMax && isPlainText(url))
    .slice(0, addressesMax)
    .map(repositoryKey)
    .filter((key) => key !== null);
