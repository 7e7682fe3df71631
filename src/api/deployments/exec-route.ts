import type { FastifyRequest } from "fastify";
import { findPrincipal, type Principal, recheckPrincipal } from "../../auth/principal.ts";
import { type Held, Shares } from "../../base/shares.ts";
import { execProtocol } from "../../contract/deployments/exec.ts";
import { errors } from "../../contract/error.ts";
import { execSessionsMax } from "../../domain/limits.ts";
import { upgradeOf } from "../../gateway/upgrade-socket.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import { credentialsOf } from "../http/authenticate.ts";
import type { Api } from "../http/route.ts";
import { readUuid } from "../validation/uuid-text.ts";
import { readDeployment } from "./deployment-routes.ts";
import { ExecConnection } from "./exec-connection.ts";

/**
 * Adds the path on which a command line runs a program beside an agent (decision 0069). It takes keys only, never a session, so
 * that no page of a browser can use it.
 */
export function addExecRoute(api: Api): void {
  const { db, settings } = api.deps;
  const share = { workspace: settings.workspaceShare, key: settings.workspaceShare };
  const sessions = new Shares({ total: execSessionsMax, ...share });
  const findCaller = (request: FastifyRequest) => {
    const credentials = { ...credentialsOf(request.headers), session: undefined };
    return { credentials, find: () => findPrincipal(api.keyring, credentials, "deployer") };
  };
  const onRequest = async (request: FastifyRequest) => {
    const { credentials, find } = findCaller(request);
    const principal = await api.limits.admit(request, find, credentials);
    await api.limits.count(principal);
    request.principal = principal;
  };
  api.server.route<{ Params: { deployment_id: string } }>({
    method: "GET",
    url: "/v2/deployments/:deployment_id/exec",
    config: { operation: "execInDeployment" },
    exposeHeadRoute: false,
    onRequest,
    handler: async (request, reply) => {
      const principal = request.principal as Principal;
      const upgrade = upgradeOf(request.raw);
      if (upgrade === undefined) throw errors.routeNotFound();
      if (!settings.allowsExec) throw errors.execOff();
      const id = readUuid(request.params.deployment_id);
      if (!("uuid" in id)) throw errors.deploymentNotFound(request.params.deployment_id);
      const deployment = await readDeployment(db, principal, id.uuid);
      if (deployment.listener_id !== api.deps.listenerId || settings.isDataPlaneRemote) {
        throw errors.execUnavailable(elsewhere(deployment));
      }
      const { socket } = upgrade;
      if (socket.destroyed) return reply.hijack(); // The client left before it was admitted.
      const held = hold(sessions, principal);
      reply.hijack();
      reply.raw.detachSocket(socket);
      const head = upgrade.take();
      socket.once("close", () => held.release());
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${execProtocol}\r\n\r\n`);
      const { credentials } = findCaller(request);
      const recheck = () => recheckPrincipal(api.keyring, credentials, "deployer", principal);
      void new ExecConnection(api.deps, { socket, deployment, principal, recheck }).serve(head);
      return reply;
    },
  });
}

/** Says where a program can be run instead. */
function elsewhere({ slug }: DeploymentRow): string {
  return (
    "This agent does not run on the server itself, but on a listener, which carries no terminals. In a cluster use " +
    `kubectl exec -it deployment/${slug} -n NAMESPACE -- sh. On another machine run the program there.`
  );
}

function hold(sessions: Shares, { tenantId, keyId }: Principal): Held {
  const held = sessions.take({ workspaceId: tenantId, keyId });
  if ("release" in held) return held;
  if (held.limit === "total")
    throw errors.unavailable("This server runs as many programs beside agents as it may.", 60);
  throw errors.shareExceeded("programs beside agents", held.limit, held.max);
}
