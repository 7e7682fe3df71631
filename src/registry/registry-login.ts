import { fetchOutward, type OutboundPolicy } from "../integrations/outbound-fetch.ts";

export interface RegistryCredential {
  username: string;
  password: string;
}

export interface RegistryLoginOptions {
  /** Scheme, host and port of the registry. */
  origin: string;
  /** What the operator wrote down for a host, with its port; null: nothing. Asked each time. */
  credentialOf(host: string): Promise<RegistryCredential | null>;
  /** As of `OutboundPolicy`, for token services elsewhere. */
  allowPrivateNetwork: boolean;
}

/** Where tokens are given out, and for whom. */
interface TokenService {
  realm: URL;
  service: string | null;
}

const askTimeoutMs = 10_000;
const tokenBytesMax = 64 * 1024;

/** A registry that changes its way of asking is noticed after this, or with its first refusal. */
const challengeKeptMs = 600_000;

/** Without a word about it a token is good for a minute (distribution's token specification); a request needs some of it. */
const tokenDefaultS = 60;
const tokenMarginMs = 10_000;
const tokensMax = 1_000;

/**
 * Finds out how a registry wants to be asked, and does so: a user name and password with each request, or a token of the
 * service that it names (https://distribution.github.io/distribution/spec/auth/token/). Another host than the registry's
 * gets the credentials that the operator has for that host, and no others.
 */
export class RegistryLogin {
  readonly #options: RegistryLoginOptions;
  #asked: { found: Promise<TokenService | null>; untilMs: number } | undefined;
  readonly #tokens = new Map<string, { token: string; untilMs: number }>();

  constructor(options: RegistryLoginOptions) {
    this.#options = options;
  }

  /**
   * @param scopes `repository:<name>:<actions>`; none for the registry itself.
   * @returns the header to send; null: nothing is known to send.
   * @throws Error in words for the operator.
   */
  async authorization(scopes: string[]): Promise<string | null> {
    const service = await this.#service();
    if (service !== null) return `Bearer ${await this.#token(service, scopes)}`;
    const credential = await this.#options.credentialOf(new URL(this.#options.origin).host);
    return credential && basicOf(credential);
  }

  /** It refused what it was sent: everything is asked for again. */
  forget(): void {
    this.#asked = undefined;
    this.#tokens.clear();
  }

  /** @returns null: a user name and password will do. */
  #service(): Promise<TokenService | null> {
    if (this.#asked === undefined || this.#asked.untilMs < performance.now()) {
      const found = this.#discover();
      this.#asked = { found, untilMs: performance.now() + challengeKeptMs };
      found.catch(() => {
        this.#asked = undefined;
      });
    }
    return this.#asked.found;
  }

  async #discover(): Promise<TokenService | null> {
    const url = `${this.#options.origin}/v2/`;
    const answer = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(askTimeoutMs) });
    await answer.body?.cancel();
    return answer.status === 401 ? readChallenge(answer.headers.get("www-authenticate") ?? "") : null;
  }

  async #token(service: TokenService, scopes: string[]): Promise<string> {
    const key = scopes.join(" ");
    const kept = this.#tokens.get(key);
    if (kept !== undefined && kept.untilMs > performance.now()) return kept.token;
    const { token, expiresInS } = await this.#askToken(service, scopes);
    if (this.#tokens.size >= tokensMax) this.#tokens.clear();
    this.#tokens.set(key, { token, untilMs: performance.now() + expiresInS * 1000 - tokenMarginMs });
    return token;
  }

  async #askToken({ realm, service }: TokenService, scopes: string[]) {
    const url = new URL(realm);
    if (service !== null) url.searchParams.set("service", service);
    for (const scope of scopes) url.searchParams.append("scope", scope);
    const credential = await this.#options.credentialOf(realm.host);
    if (credential === null) {
      throw new Error(
        `the registry at ${this.#host} sends for a token to ${realm.host}: add credentials for that host to PIERHEAD_REGISTRY_AUTH_FILE`,
      );
    }
    const answer = await fetchOutward(
      url.href,
      { headers: { authorization: basicOf(credential) } },
      this.#policy(realm),
    );
    if (!answer.ok) throw new Error(`${realm.host} gives no token for the registry at ${this.#host}: ${answer.status}`);
    return readToken(await answer.text(), realm);
  }

  get #host(): string {
    return new URL(this.#options.origin).host;
  }

  /** The registry itself is the operator's word; what it names is not. */
  #policy(realm: URL): OutboundPolicy {
    const isSame = realm.origin === this.#options.origin;
    const { allowPrivateNetwork } = this.#options;
    return {
      allowPrivateNetwork: isSame || allowPrivateNetwork,
      plainHttp: isSame ? "anywhere" : "loopback",
      timeoutMs: askTimeoutMs,
      bytesMax: tokenBytesMax,
    };
  }
}

const basicOf = ({ username, password }: RegistryCredential) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;

/** A registry that takes both gets the simpler one. @throws Error for a realm that is no address. */
function readChallenge(header: string): TokenService | null {
  if (!/^bearer\s/i.test(header) || /,\s*basic\b/i.test(header)) return null;
  const given = new Map([...header.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]));
  const realm = URL.parse(given.get("realm") ?? "");
  if (realm === null) throw new Error("the registry names no address that gives tokens");
  return { realm, service: given.get("service") ?? null };
}

function readToken(text: string, realm: URL): { token: string; expiresInS: number } {
  try {
    const read = JSON.parse(text) as { token?: unknown; access_token?: unknown; expires_in?: unknown };
    const token = read.token ?? read.access_token;
    if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) {
      return { token, expiresInS: typeof read.expires_in === "number" ? read.expires_in : tokenDefaultS };
    }
  } catch {
    // no JSON then
  }
  throw new Error(`${realm.host} answers without a token`);
}
