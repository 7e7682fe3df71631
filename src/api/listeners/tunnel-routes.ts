import { request as begin } from "node:http";
import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import { findListenerPrincipal, type ListenerPrincipal } from "../../auth/principal.ts";
import { awaitUpgrade } from "../../base/await-upgrade.ts";
import { encodeFrame } from "../../base/frames.ts";
import { joinSockets } from "../../base/join-sockets.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { epochHeader } from "../../contract/listeners/assignment.ts";
import { tunnelChannels, tunnelHopHeader, tunnelProtocol } from "../../contract/listeners/tunnel.ts";
import { execIdleMs, execKeyCheckMs } from "../../domain/limits.ts";
import { checkEpoch } from "../../store/data-plane/listener-sessions.ts";
import { findTunnelReplica } from "../../store/data-plane/tunnels.ts";
import { credentialsOf } from "../http/authenticate.ts";
import type { Api } from "../http/route.ts";
import { askedUpgrade } from "../http/take-upgrade.ts";
import { readUuid } from "../validation/uuid-text.ts";
import { sessionOf } from "./listener-session.ts";
import type { ListenerTurns } from "./listener-turns.ts";

/** A replica of the same control plane answers sooner. */
const hopTimeoutMs = 5_000;

/** Adds the paths on which listeners take orders for connections, and open them (decision 0074). */
export function addTunnelRoutes(api: Api, turns: ListenerTurns): void {
  const { db, tunnels } = api.deps;
  const find = (request: FastifyRequest) => findListenerPrincipal(api.keyring, credentialsOf(request.headers));
  const onRequest = async (request: FastifyRequest) => {
    request.principal = await api.limits.admit(request, (credentials) =>
      findListenerPrincipal(api.keyring, credentials),
    );
  };
  const sessionOfCall = async (request: FastifyRequest) => {
    const session = sessionOf(request.principal as ListenerPrincipal, request);
    const left = new AbortController();
    request.raw.socket.once("close", () => left.abort());
    await turns.take(session.listenerId, () => checkEpoch(db, session), left.signal);
    return session;
  };
  const common = { method: "GET" as const, exposeHeadRoute: false, onRequest };

  api.server.route({
    ...common,
    url: "/dp/v1/tunnels",
    config: { operation: "followTunnels" },
    handler: async (request, reply) => {
      const upgrade = askedUpgrade(request, reply);
      const session = await sessionOfCall(request);
      const socket = upgrade.accept(tunnelProtocol);
      if (socket.destroyed) return reply;
      for (const event of ["error", "end"]) socket.on(event, () => socket.destroy());
      const timer = setInterval(() => {
        if (socket.writableLength === 0) socket.write(encodeFrame(tunnelChannels.alive, ""));
        // While the database is unreachable, nothing can be checked.
        Promise.all([find(request), checkEpoch(db, session)]).catch((error: unknown) => {
          if (error instanceof ApiError) socket.destroy();
        });
      }, execKeyCheckMs);
      socket.once("close", () => clearInterval(timer));
      socket.resume();
      tunnels.follow(session.listenerId, socket);
      return reply;
    },
  });

  api.server.route<{ Params: { tunnel_id: string } }>({
    ...common,
    url: "/dp/v1/tunnels/:tunnel_id",
    config: { operation: "openTunnel" },
    handler: async (request, reply) => {
      const upgrade = askedUpgrade(request, reply);
      const { listenerId } = await sessionOfCall(request);
      const id = readUuid(request.params.tunnel_id);
      if (!("uuid" in id)) throw errors.routeNotFound();
      if (tunnels.waits(id.uuid, listenerId)) {
        tunnels.accept(id.uuid, upgrade.accept(tunnelProtocol));
        return reply;
      }
      const isPassedOn = request.headers[tunnelHopHeader] !== undefined;
      const replica = isPassedOn ? undefined : await findTunnelReplica(db, { id: id.uuid, listenerId });
      if (replica === undefined) throw errors.routeNotFound();
      return passOn(`${replica}/dp/v1/tunnels/${id.uuid}`, { request, reply, upgrade, tunnels });
    },
  });
}

/** Joins the listener's connection with the replica on which the user waits. @throws ApiError 503 when it cannot be reached */
async function passOn(
  url: string,
  parts: {
    request: FastifyRequest;
    reply: FastifyReply;
    upgrade: ReturnType<typeof askedUpgrade>;
    tunnels: { keep(socket: Socket): void };
  },
): Promise<FastifyReply> {
  const { headers } = parts.request;
  const names = ["x-api-key", "authorization", epochHeader];
  const kept = Object.fromEntries(
    names.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
  );
  const sent = begin(url, {
    headers: { ...kept, connection: "Upgrade", upgrade: tunnelProtocol, [tunnelHopHeader]: "1" },
  });
  sent.end();
  const { socket: peer } = await awaitUpgrade(sent, {
    timeoutMs: hopTimeoutMs,
    refused: async (answer) => {
      answer.resume();
      return unreachable();
    },
    failed: unreachable,
  });
  const socket = parts.upgrade.accept(tunnelProtocol);
  for (const one of [socket, peer]) {
    parts.tunnels.keep(one);
    // The other replica ends idle connections, but may vanish without a word.
    one.setTimeout(execIdleMs + hopTimeoutMs, () => one.destroy());
  }
  joinSockets(socket, peer);
  return parts.reply;
}

const unreachable = () =>
  errors.unavailable("The replica of the control plane that waits for this cannot be reached.", 1);
