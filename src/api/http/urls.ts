import type { IncomingMessage } from "node:http";
import type { ApiSettings } from "../deps.ts";
import { mountOf, originOf } from "./path-prefixes.ts";

/** Returns the base of absolute API URLs that the client can reach: the configured one, or the one that it called. */
export function apiUrlOf(request: IncomingMessage, settings: ApiSettings): string {
  return settings.publicUrl?.replace(/\/+$/, "") ?? originOf(request, settings.trustedProxies) + mountOf(request);
}

/** Returns the base of deployment addresses; a slug completes it. It never includes the prefix of the API. */
export function deploymentsUrlOf(request: IncomingMessage, settings: ApiSettings): string {
  return `${settings.publicUrl?.replace(/\/+$/, "") ?? originOf(request, settings.trustedProxies)}/d/`;
}
