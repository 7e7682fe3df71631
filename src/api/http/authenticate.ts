import type { IncomingHttpHeaders } from "node:http";
import type { Credentials } from "../../auth/principal.ts";
import { consoleHeader, sessionCookie } from "../../contract/administration/session.ts";

/**
 * Reads who is asking off the headers: `X-Api-Key`, or `Authorization: Bearer <key>` as several scripts send it
 * (contract 1.2); `X-Service-Key` of services that sign their own; the cookie of a session only from a page of ours. Node
 * gives header names in lower case, so every spelling is one. An empty header is none.
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
 * Was this sent by a page of this very origin? Others cannot send the header without being asked first, which nobody here
 * answers, and a browser says where a request comes from (Fetch Metadata): `same-site` is not enough, because agents
 * answer under names of that site.
 */
export function isFromConsole(headers: IncomingHttpHeaders): boolean {
  const site = headers["sec-fetch-site"];
  return headers[consoleHeader] !== undefined && (site === undefined || site === "same-origin");
}

/** What a browser holds that is signed in, if it is. */
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
