import type { Db } from "../../store/engine/database.ts";
import { openProviderSecret, type ProviderRow } from "../../store/oauth/oauth-providers.ts";
import type { Sealer } from "../../store/secrets/seal.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ProviderFetch } from "./outbound.ts";
import type { Dialogue } from "./token-endpoint.ts";
import type { Underway } from "./underway.ts";

/** What the OAuth service stands on. */
export interface OAuthDeps {
  db: Db;
  sealer: Sealer;
  logger: Logger;
  /** Names this start of this server. */
  owner: string;
  fetch: ProviderFetch;
  /** Conversations with providers that go on when those who asked have left. */
  underway: Underway;
  /** This server's redirect URI of a provider. */
  callbackUrl(provider: ProviderRow): string;
  /** The operator's organization whose providers everybody may use who asks for it; null: there is none. */
  sharedOrganizationId: string | null;
}

/** Who asks the service for something. */
export interface OAuthCaller {
  organizationId: string;
  tenantId: string;
  /** For the audit log, and to know again who started a sign-in. */
  actor: string;
  /** The user that the request names in a header, if it does. */
  namedUserId: string | null;
  /** The one user that the caller may speak for; null: whom the request names. */
  onlyUserId: string | null;
}

/** The user that is meant where none is named: the key itself, as nobody else. */
export const ownUserId = ({ actor }: Pick<OAuthCaller, "actor">) => actor;

export function dialogueWith({ sealer, fetch }: OAuthDeps, provider: ProviderRow): Dialogue {
  return { provider, secret: openProviderSecret(sealer, provider), fetch };
}
