import type { Principal } from "../../auth/principal.ts";
import { joinSockets } from "../../base/join-sockets.ts";
import { ApiError } from "../../contract/error.ts";
import { execIdleMs, execKeyCheckMs } from "../../domain/limits.ts";
import { recordConnect } from "../../store/deployments/agent-calls.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import type { ApiDeps } from "../deps.ts";
import type { AskedUpgrade } from "../http/take-upgrade.ts";

/**
 * Joins a client with an agent through its listener. The connection ends with either side, when it is idle, or when the key no longer
 * admits its holder.
 * @throws ApiError `execUnavailable`, before the client's connection changes hands
 */
export async function connectThroughListener(
  { db, tunnels }: Pick<ApiDeps, "db" | "tunnels">,
  client: { upgrade: AskedUpgrade; deployment: DeploymentRow; principal: Principal; recheck(): Promise<void> },
  protocol: string,
): Promise<void> {
  const { upgrade, deployment, principal, recheck } = client;
  const { organizationId, actor } = principal;
  // Before the connection: one that cannot be recorded is not opened.
  await recordConnect(db, deployment, { organizationId, actor });
  const wanted = { deployment_id: deployment.id, slug: deployment.slug, kind: "connect" as const, replica_id: null };
  const { socket: agent } = await tunnels.open(deployment.listener_id, wanted, upgrade.socket);
  const socket = upgrade.accept(protocol);
  if (socket.destroyed) return; // The client left, and the agent's connection with it.
  tunnels.keep(socket);
  for (const one of [socket, agent]) one.setTimeout(execIdleMs, () => one.destroy());
  const timer = setInterval(() => {
    // While the database is unreachable, nothing can be checked, so the connection stays.
    recheck().catch((error: unknown) => {
      if (error instanceof ApiError) socket.destroy();
    });
  }, execKeyCheckMs);
  socket.once("close", () => clearInterval(timer));
  joinSockets(socket, agent);
}
