import { type Static, Type } from "typebox";
import { literals, nullable, uuid } from "../schema.ts";

/**
 * Connections that the control plane asks a listener to open (decision 0074). The listener holds `GET /dp/v1/tunnels` open with
 * `Upgrade: pierhead-tunnel` and receives orders there as frames. For each order it opens `GET /dp/v1/tunnels/{tunnel_id}` in the same
 * way, with a first frame that says whether it found the agent. A tunnel for a program then carries the frames of
 * `src/contract/deployments/exec.ts`, and any other one carries plain bytes.
 */
export const tunnelProtocol = "pierhead-tunnel";

/** Marks a request that another replica of the control plane has passed on, so that it is passed on once. */
export const tunnelHopHeader = "pierhead-tunnel-hop";

export const tunnelChannels = {
  /** To the listener: `TunnelOrder` as JSON. */
  order: 0,
  /** To the listener, empty, every 15 s. */
  alive: 7,
  /** To the control plane, first in a tunnel: `TunnelFound` as JSON. */
  found: 8,
} as const;

/** Maximum payload of an order, and of the first frame. */
export const tunnelFrameBytesMax = 16 * 1024;

export const TunnelOrder = Type.Object({
  tunnel_id: uuid("Valid for one connection, within seconds."),
  deployment_id: uuid(),
  slug: Type.String(),
  kind: literals(["exec", "connect"]),
  replica_id: nullable(Type.String(), "null: the newest ready replica."),
});
export type TunnelOrder = Static<typeof TunnelOrder>;

export const TunnelFound = Type.Object({
  replica_id: nullable(Type.String(), "null: the gateway chooses one for each request, or the agent was not found."),
  message: nullable(Type.String({ maxLength: 4_000 }), "Why the tunnel leads nowhere; null: it is open."),
});
export type TunnelFound = Static<typeof TunnelFound>;
