import type { IncomingHttpHeaders } from "node:http";
import type { Credentials } from "../../auth/principal.ts";
import { consoleHeader, sessionCookie } from "../../contract/administration/session.ts";

/**
 * Returns the credentials in a request's headers: `X-Api-Key`, or `Authorization: Bearer <key>` as several scripts send
 * it (contract 1.2); `X-Service-Key` of services that sign their own keys; and the session cookie, but only when one of
 * our own pages sent the request. Node lower-cases header names, so any spelling works. An empty header counts as
 * absent.
 */
export function credentialsOf(headers: IncomingHttpHeaders): Credentials {
  return {
    key: textOf(headers["x-api-key"]) ?? bearerOf(headers.authorization),
    session: isFromConsole(headers) ? sessionTokenOf(headers) : undefined,
    serviceKey: textOf(headers["x-service-key"]),
    tenantId: textOf(headers["x-tenant-id"]),
    organizationId: textOf(headers["x-organization-id"]),
  };
}

/**
 * Returns whether a page of this origin sent the request. Other origins cannot send the console header without a CORS
 * preflight, which this server never grants. Browsers also name the origin of a request (Fetch Metadata). `same-site`
 * is not enough, because agents are served under names of the same site.
 */
export function isFromConsole(headers: IncomingHttpHeaders): boolean {
  const site = headers["sec-fetch-site"];
  return headers[consoleHeader] !== undefined && (site === undefined || site === "same-origin");
}

/** Returns the session token in the browser's cookie, if it has one. */
export const sessionTokenOf = (headers: IncomingHttpHeaders) => cookieNamed(headers, sessionCookie);

export function cookieNamed({ cookie = "" }: IncomingHttpHeaders, wanted: string): string | undefined {
  const pairs = cookie.split(";").map((pair) => pair.trim().split("=", 2));
  return pairs.find(([name]) => name === wanted)?.[1] || undefined;
}

function bearerOf(header: string | undefined): string | undefined {
  return textOf(/^bearer +(.*)$/i.exec(header ?? "")?.[1]);
}

function textOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.join(", ") : header;
  return text?.trim() || undefined;
}
