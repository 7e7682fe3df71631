import type { FastifyRequest } from "fastify";
import { findPrincipal, ownerOf, type Principal } from "../../auth/principal.ts";
import { answerHeader, backgroundHeader } from "../../contract/administration/session.ts";
import { errors } from "../../contract/error.ts";
import { recordAgentCall } from "../../store/deployments/agent-calls.ts";
import { isFromConsole } from "../http/authenticate.ts";
import type { Api } from "../http/route.ts";
import { readUuid } from "../validation/uuid-text.ts";
import { readDeployment } from "./deployment-routes.ts";

/** Longest path in an audit row. */
const notedPathMax = 200;

/**
 * Adds the path on which the console calls agents with the session of its user (decision 0060). Like every call of a session it
 * needs the console's own header. The agent gets a signed statement about the user, and neither cookies nor keys.
 */
export function addAgentCalls(api: Api): void {
  const { db } = api.deps;
  const config = { operation: "callAgent" };
  const onRequest = async (request: FastifyRequest) => {
    if (!isFromConsole(request.headers)) throw errors.forbidden();
    const principal = await api.limits.admit(request, (one) => findPrincipal(api.keyring, one, "reader"));
    await api.limits.count({ keyId: principal.keyId, ownerId: ownerOf(principal) });
    request.principal = principal;
  };
  api.server.route<{ Params: { deployment_id: string } }>({
    method: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    url: "/v2/deployments/:deployment_id/agent/*",
    config,
    onRequest,
    handler: async (request, reply) => {
      const principal = request.principal as Principal;
      const deployment = await readDeployment(db, principal, deploymentIdIn(request.params.deployment_id));
      const [path = ""] = (request.raw.url ?? "").replace(/^\/v2\/deployments\/[^/]+\/agent/, "").split("#", 1);
      const { organizationId, tenantId, role, actor } = principal;
      const [noted = ""] = path.split("?", 1);
      const isChange = changesSomething(request.method, noted);
      if (isChange && !reply.raw.destroyed) {
        const isAnswer = request.headers[answerHeader] !== undefined && runOfThread.test(noted);
        const action = isAnswer ? ("agent.answer" as const) : ("agent.call" as const);
        const call = { organizationId, actor, action, verb: request.method, path: noted.slice(0, notedPathMax) };
        await recordAgentCall(db, deployment, call);
      }
      const { id: deploymentId, slug } = deployment;
      const assertion = api.assertions.sign({ deploymentId, caller: actor, role, tenantId, organizationId });
      reply.hijack();
      // A run that no metric counts and that sleep may cut off is never what the caller wants.
      const isBackground = !isChange && request.headers[backgroundHeader] !== undefined;
      api.deps.callAgent(request.raw, reply.raw, { slug, deploymentId, path, assertion, isBackground });
      return reply;
    },
  });
}

function deploymentIdIn(text: string): string {
  const read = readUuid(text);
  if ("uuid" in read) return read.uuid;
  throw errors.deploymentNotFound(text);
}

const runOfThread = /^\/threads\/[^/]+\/runs(?:\/|$)/;

/** The agent API also reads by POST: it searches, counts, and reads histories and single checkpoints. */
const readingPosts =
  /^\/(?:(?:assistants|threads|store\/items|runs\/crons)\/(?:search|count)|threads\/[^/]+\/(?:history|state\/checkpoint))\/?$/;

const changesSomething = (verb: string, path: string) =>
  verb !== "GET" && verb !== "HEAD" && !(verb === "POST" && readingPosts.test(path));
