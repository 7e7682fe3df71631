import type { OAuthQuirks } from "../../domain/oauth-quirks.ts";

/** Response of a token endpoint in standard form for the library, with its non-standard parts. */
export interface TokenAnswer {
  standard: Response;
  /** Label of the account, for users who have several. */
  accountLabel: string | null;
  /** Fields that are neither standard nor secret, such as the address of the account's instance. */
  extras: Record<string, unknown>;
  /** A second token for the whole workspace, as Slack issues one to a bot. */
  workspaceToken: Record<string, unknown> | null;
}

/**
 * Normalizes the response of a token endpoint (contract 9.5): forms instead of JSON, errors with status 200, nested tokens,
 * lists with commas. An unreadable response is passed to the library, which refuses it.
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

/** Returns the status of an unreadable response. A success status without readable content becomes 502. */
const errorStatusOf = ({ status }: Response) => (status >= 400 ? status : 502);

/** Returns the error code of a response, whatever its status. undefined: it is not an error. */
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

/** Matches the names of fields that may hold secrets, of any provider. */
const secretName = /token|secret|password|signature|code|assertion/i;

/** Limits of the stored extras: enough for names and addresses. */
const extrasSizeMax = 4_096;
const depthMax = 3;

function extrasOf(body: Fields): Fields {
  const extras = withoutSecrets(body, 0) as Fields;
  const stored = Object.fromEntries(Object.entries(extras).filter(([name]) => !standardFields.has(name)));
  return JSON.stringify(stored).length <= extrasSizeMax ? stored : {};
}

function withoutSecrets(value: unknown, depth: number): unknown {
  if (Array.isArray(value)) return depth < depthMax ? value.map((item) => withoutSecrets(item, depth + 1)) : [];
  const fields = objectOf(value);
  if (fields === undefined) return value;
  if (depth >= depthMax) return {};
  const open = Object.entries(fields).filter(([name]) => !secretName.test(name) && name !== "__proto__");
  return Object.fromEntries(open.map(([name, inner]) => [name, withoutSecrets(inner, depth + 1)]));
}

/** Returns the account's label from the ID token or the extras. The ID token came straight from the token endpoint and is only displayed. */
function labelOf(body: Fields): string | null {
  const claims = claimsOf(body["id_token"]);
  const candidates = [
    claims?.["email"],
    claims?.["preferred_username"],
    claims?.["name"],
    body["workspace_name"],
    objectOf(body["team"])?.["name"],
  ];
  const found = candidates.find((one) => typeof one === "string" && one.trim() !== "") as string | undefined;
  // Removes line breaks, marks that change the direction of text, and halves of surrogate pairs.
  return found?.replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, "").slice(0, 256) ?? null;
}

function claimsOf(idToken: unknown): Fields | undefined {
  if (typeof idToken !== "string" || idToken.length > 16_384) return undefined;
  try {
    return objectOf(JSON.parse(Buffer.from(idToken.split(".")[1] ?? "", "base64url").toString()));
  } catch {
    return undefined;
  }
}
