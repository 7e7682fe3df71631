import type { IncomingHttpHeaders } from "node:http";
import type { Credentials } from "../auth/principal.ts";

/**
 * Reads who is asking off the headers: `X-Api-Key`, or `Authorization: Bearer <key>` as several scripts send it
 * (contract 1.2). Node gives header names in lower case, so every spelling is one. An empty header is none.
 */
export function credentialsOf(headers: IncomingHttpHeaders): Credentials {
  return {
    key: textOf(headers["x-api-key"]) ?? bearerOf(headers.authorization),
    tenantId: textOf(headers["x-tenant-id"]),
    organizationId: textOf(headers["x-organization-id"]),
  };
}

function bearerOf(header: string | undefined): string | undefined {
  return textOf(/^bearer +(.*)$/i.exec(header ?? "")?.[1]);
}

function textOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header.join(", ") : header;
  return text?.trim() || undefined;
}
