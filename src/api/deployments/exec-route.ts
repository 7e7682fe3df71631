import type { FastifyReply, FastifyRequest } from "fastify";
import { findPrincipal, ownerOf, type Principal, recheckPrincipal } from "../../auth/principal.ts";
import { type Held, Shares } from "../../base/shares.ts";
import { connectProtocol, execProtocol } from "../../contract/deployments/exec.ts";
import { errors } from "../../contract/error.ts";
import { connectionsThroughListenersMax, execSessionsMax } from "../../domain/limits.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import { credentialsOf } from "../http/authenticate.ts";
import type { Api } from "../http/route.ts";
import { type AskedUpgrade, askedUpgrade } from "../http/take-upgrade.ts";
import { readUuid } from "../validation/uuid-text.ts";
import { connectThroughListener } from "./connect-through-listener.ts";
import { readDeployment } from "./deployment-routes.ts";
import { ExecConnection } from "./exec-connection.ts";
import { findThroughListener } from "./exec-through-listener.ts";

/** An admitted request for a connection to an agent. */
interface Admitted {
  request: FastifyRequest;
  reply: FastifyReply;
  upgrade: AskedUpgrade;
  deployment: DeploymentRow;
  principal: Principal;
  /** Whether the agent runs on a listener, and not on this server. */
  isElsewhere: boolean;
  /** @throws ApiError when the key no longer admits its holder */
  recheck(): Promise<void>;
}

/**
 * Adds the paths on which a command line runs a program beside an agent (decision 0069) and connects to an agent through its listener
 * (decision 0074). They take keys only, never a session, so that no page of a browser can use them.
 */
export function addExecRoutes(api: Api): void {
  const { tunnels, openExec, listenerId, settings } = api.deps;
  const share = { workspace: settings.workspaceShare, key: settings.workspaceShare };
  const programs = new Shares({ total: execSessionsMax, ...share });
  const connections = new Shares({ total: connectionsThroughListenersMax, ...share });

  addRoute(api, { path: "exec", operation: "execInDeployment" }, async (admitted) => {
    const { deployment, upgrade, principal, recheck } = admitted;
    if (upgrade.socket.destroyed) return; // The client left before it was admitted.
    const held = hold(programs, principal, "programs beside agents");
    const socket = upgrade.accept(execProtocol);
    socket.once("close", () => held.release());
    const find = admitted.isElsewhere
      ? (replicaId: string | null) => findThroughListener(tunnels, deployment, replicaId, socket)
      : (replicaId: string | null) => openExec(deployment.id, replicaId);
    void new ExecConnection(api.deps, { socket, find, deployment, principal, recheck }).serve();
  });

  addRoute(api, { path: "connect", operation: "connectToDeployment" }, async (admitted) => {
    if (!admitted.isElsewhere) throw errors.execUnavailable(onServer);
    const held = hold(connections, admitted.principal, "connections through listeners");
    admitted.upgrade.socket.once("close", () => held.release());
    if (admitted.upgrade.socket.destroyed) return held.release();
    await connectThroughListener(api.deps, admitted, connectProtocol);
  });

  function addRoute(
    { server }: Api,
    { path, operation }: { path: string; operation: string },
    serve: (admitted: Admitted) => Promise<void>,
  ): void {
    server.route<{ Params: { deployment_id: string } }>({
      method: "GET",
      url: `/v2/deployments/:deployment_id/${path}`,
      config: { operation },
      exposeHeadRoute: false,
      onRequest: (request) => admit(api, request),
      handler: async (request, reply) => {
        const principal = request.principal as Principal;
        const upgrade = askedUpgrade(request, reply);
        if (!settings.allowsExec) throw errors.execOff();
        const id = readUuid(request.params.deployment_id);
        if (!("uuid" in id)) throw errors.deploymentNotFound(request.params.deployment_id);
        const deployment = await readDeployment(api.deps.db, principal, id.uuid);
        const isElsewhere = deployment.listener_id !== listenerId || settings.isDataPlaneRemote;
        const recheck = () => recheckPrincipal(api.keyring, keysOf(request), "deployer", principal);
        await serve({ request, reply, upgrade, deployment, principal, isElsewhere, recheck });
        return reply.hijack();
      },
    });
  }
}

const onServer = "This agent runs on the server itself, so it is reached at its own address.";

const keysOf = (request: FastifyRequest) => ({ ...credentialsOf(request.headers), session: undefined });

async function admit(api: Api, request: FastifyRequest): Promise<void> {
  const credentials = keysOf(request);
  const find = () => findPrincipal(api.keyring, credentials, "deployer");
  const principal = await api.limits.admit(request, find, credentials);
  await api.limits.count({ keyId: principal.keyId, ownerId: ownerOf(principal) });
  request.principal = principal;
}

/** @throws ApiError when this server, or its holder, has as many as it may */
function hold(shares: Shares, { tenantId, keyId }: Principal, what: string): Held {
  const held = shares.take({ workspaceId: tenantId, keyId });
  if ("release" in held) return held;
  if (held.limit === "total") throw errors.unavailable(`This server carries as many ${what} as it may.`, 60);
  throw errors.shareExceeded(what, held.limit, held.max);
}
