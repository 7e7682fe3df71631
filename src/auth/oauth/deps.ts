import type { Db } from "../../store/engine/database.ts";
import { openProviderSecret, type ProviderRow } from "../../store/oauth/oauth-providers.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ProviderFetch } from "./outbound.ts";
import type { ProviderExchanges } from "./provider-exchanges.ts";
import type { ProviderClient } from "./token-endpoint.ts";

/** Dependencies of the OAuth service. */
export interface OAuthDeps {
  db: Db;
  sealer: Sealer;
  logger: Logger;
  /** Identifies this start of this server. */
  owner: string;
  fetch: ProviderFetch;
  /** Exchanges with providers, which continue when their callers have left. */
  exchanges: ProviderExchanges;
  /** This server's redirect URI of a provider. */
  callbackUrl(provider: ProviderRow): string;
  /** The operator's organization whose providers all callers may use on request. null: there is none. */
  sharedOrganizationId: string | null;
}

/** Caller of the OAuth service. */
export interface OAuthCaller {
  organizationId: string;
  tenantId: string;
  /** For the audit log, and to recognize the caller who started a sign-in. */
  actor: string;
  /** The user that the request names in a header, if any. */
  namedUserId: string | null;
  /** The only user that the caller may act for. null: the one that the request names. */
  onlyUserId: string | null;
}

/** Returns the user when the request names none: the key itself. */
export const ownUserId = ({ actor }: Pick<OAuthCaller, "actor">) => actor;

export function providerClient({ sealer, fetch }: OAuthDeps, provider: ProviderRow): ProviderClient {
  return { provider, secret: openProviderSecret(sealer, provider), fetch };
}
