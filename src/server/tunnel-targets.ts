import { createServer, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { findReplica } from "../compute/choose-replica.ts";
import type { Compute } from "../compute/compute.ts";
import { type Gateway, gatewayServerOptions, keepAllHeaders } from "../gateway/gateway.ts";
import type { TunnelTargets } from "../listener/tunnels/tunnel-server.ts";

/**
 * Leads tunnels to replicas that this process starts itself. Connections pass the gateway, which checks callers, wakes deployments and
 * chooses a replica for each request, as for any other request. The tunnel decides for which deployment, not the request.
 */
export function replicaTunnels(compute: Compute, gateway: Gateway): TunnelTargets {
  const slugs = new WeakMap<Socket, string>();
  const slugOf = ({ socket }: IncomingMessage) => slugs.get(socket) ?? "";
  const server = createServer(gatewayServerOptions, (request, response) =>
    gateway.receiveFor(slugOf(request), request, response),
  );
  keepAllHeaders(server);
  server.on("upgrade", (request, socket, head) => gateway.receiveFor(slugOf(request), request, { socket, head }));
  return {
    findProgram: (deploymentId, replicaId) => findReplica(compute, deploymentId, replicaId),
    connect: async ({ slug }) => {
      return {
        join(socket) {
          slugs.set(socket, slug);
          server.emit("connection", socket);
        },
        close() {},
      };
    },
  };
}
