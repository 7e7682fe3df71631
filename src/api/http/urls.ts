import type { IncomingMessage } from "node:http";
import type { ApiSettings } from "../deps.ts";
import { mountOf, originOf } from "./path-prefixes.ts";

/** Base of absolute API URLs, as the client can reach them: what the operator configured, else what the client called. */
export function apiUrlOf(request: IncomingMessage, settings: ApiSettings): string {
  return settings.publicUrl?.replace(/\/+$/, "") ?? originOf(request) + mountOf(request);
}

/** Base of the addresses of deployments; a slug makes it whole. They do not lie under the prefix of the API. */
export function deploymentsUrlOf(request: IncomingMessage, settings: ApiSettings): string {
  return `${settings.publicUrl?.replace(/\/+$/, "") ?? originOf(request)}/d/`;
}
