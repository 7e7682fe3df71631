import type { OAuthQuirks } from "../../domain/oauth-quirks.ts";

/** An answer of a token endpoint as the standard has it, for the library, and what else it told. */
export interface TokenAnswer {
  standard: Response;
  /** Which account it is, for people who have several. */
  accountLabel: string | null;
  /** What is neither standard nor secret, such as the address of the account's instance. */
  extras: Record<string, unknown>;
  /** A second token for the whole workspace, as Slack gives one to a bot. */
  workspaceToken: Record<string, unknown> | null;
}

/**
 * Reads the dialects of token endpoints (contract 9.5): forms instead of JSON, errors with status 200, tokens that are
 * nested, lists with commas. What cannot be read is left to the library, which refuses it.
 */
export async function readTokenAnswer(answer: Response, quirks: OAuthQuirks): Promise<TokenAnswer> {
  const body = parse(await answer.text(), answer.headers.get("content-type") ?? "");
  const none = { accountLabel: null, extras: {}, workspaceToken: null };
  if (body === undefined) return { ...none, standard: new Response(null, { status: errorStatusOf(answer) }) };
  const nested = quirks.userTokenIn === null ? undefined : objectOf(body[quirks.userTokenIn]);
  const error = errorOf(body, answer.status, nested);
  if (error !== undefined) {
    const status = answer.status >= 400 ? answer.status : 400;
    return { ...none, standard: Response.json({ error }, { status }) };
  }
  const own = typeof nested?.["access_token"] === "string" ? nested : undefined;
  return {
    standard: Response.json(standardOf(own ?? body), { status: answer.status }),
    accountLabel: labelOf(body),
    extras: extrasOf(body),
    workspaceToken: own !== undefined && typeof body["access_token"] === "string" ? standardOf(body) : null,
  };
}

type Fields = Record<string, unknown>;

function parse(text: string, contentType: string): Fields | undefined {
  try {
    return objectOf(JSON.parse(text));
  } catch {
    const isForm = /^application\/x-www-form-urlencoded\b|^text\/plain\b/i.test(contentType);
    const form = Object.fromEntries(new URLSearchParams(isForm ? text : ""));
    return "access_token" in form || "error" in form ? form : undefined;
  }
}

const objectOf = (value: unknown): Fields | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;

/** Nothing readable with a status that promises something is as bad as a fault. */
const errorStatusOf = ({ status }: Response) => (status >= 400 ? status : 502);

/** The code of a refusal, whatever the status says; undefined: it is none. */
function errorOf(body: Fields, status: number, nested: Fields | undefined): string | undefined {
  const { error, ok } = body;
  const code = typeof error === "string" ? error : objectOf(error)?.["code"];
  const hasToken = typeof (nested ?? body)["access_token"] === "string" || typeof body["access_token"] === "string";
  if (status < 400 && ok !== false && hasToken) return undefined;
  if (typeof code === "string" && code !== "") return code;
  if (status === 401) return "invalid_client";
  return ok === false ? "refused" : undefined;
}

function standardOf(body: Fields): Fields {
  const { access_token, refresh_token, expires_in, scope, token_type } = body;
  const isSlackType = token_type === "user" || token_type === "bot";
  return {
    access_token,
    token_type: token_type === undefined || token_type === null || isSlackType ? "bearer" : token_type,
    ...(typeof refresh_token === "string" && refresh_token !== "" && { refresh_token }),
    ...(expires_in !== null && expires_in !== undefined && { expires_in }),
    ...(scope !== null && scope !== undefined && { scope: Array.isArray(scope) ? scope.join(" ") : scope }),
  };
}

const standardFields: ReadonlySet<string> = new Set(["expires_in", "scope", "scopes", "token_type", "ok", "issued_at"]);

/** Names of fields that hold secrets, however the provider calls them. */
const secretName = /token|secret|password|signature|code|assertion/i;

/** What is kept of the extras: enough for names and addresses. */
const extrasSizeMax = 4_096;
const depthMax = 3;

function extrasOf(body: Fields): Fields {
  const extras = withoutSecrets(body, 0) as Fields;
  const told = Object.fromEntries(Object.entries(extras).filter(([name]) => !standardFields.has(name)));
  return JSON.stringify(told).length <= extrasSizeMax ? told : {};
}

function withoutSecrets(value: unknown, depth: number): unknown {
  if (Array.isArray(value)) return depth < depthMax ? value.map((item) => withoutSecrets(item, depth + 1)) : [];
  const fields = objectOf(value);
  if (fields === undefined) return value;
  if (depth >= depthMax) return {};
  const open = Object.entries(fields).filter(([name]) => !secretName.test(name) && name !== "__proto__");
  return Object.fromEntries(open.map(([name, inner]) => [name, withoutSecrets(inner, depth + 1)]));
}

/** From the ID token, which came straight from the token endpoint and is only read for people to see, or from extras. */
function labelOf(body: Fields): string | null {
  const claims = claimsOf(body["id_token"]);
  const candidates = [
    ...[claims?.["email"], claims?.["preferred_username"], claims?.["name"]],
    ...[body["workspace_name"], objectOf(body["team"])?.["name"]],
  ];
  const found = candidates.find((one) => typeof one === "string" && one.trim() !== "") as string | undefined;
  // Neither line breaks nor marks that turn text around.
  return found?.replace(/[\p{Cc}\p{Cf}]/gu, "").slice(0, 256) ?? null;
}

function claimsOf(idToken: unknown): Fields | undefined {
  if (typeof idToken !== "string" || idToken.length > 16_384) return undefined;
  try {
    return objectOf(JSON.parse(Buffer.from(idToken.split(".")[1] ?? "", "base64url").toString()));
  } catch {
    return undefined;
  }
}
