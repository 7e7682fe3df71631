/** An error that the caller can understand and act on. Any other exception is a bug, and the server answers it with 500. */
export class ApiError extends Error {
  readonly code: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Further keys of the response body. A `detail` in it replaces the text. */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(code: string, status: number, detail: string, more: Partial<Pick<ApiError, "headers" | "extra">> = {}) {
    super(detail);
    this.name = "ApiError";
    this.code = code;
    this.status = status;
    this.headers = more.headers ?? {};
    this.extra = more.extra ?? {};
  }

  /** Returns the body of the HTTP response (contract 1.4). */
  body(): Record<string, unknown> {
    return { detail: this.message, ...this.extra };
  }
}

/** Header that carries the code of an error. Texts are for people, and existing clients expect a body without a code. */
export const errorHeader = "x-pierhead-error";

/** Header that says which header of a refused request was wrong: existing clients match the texts of 401 and 403 word for word. */
export const hintHeader = "x-pierhead-hint";

const hinted = (hint: string | undefined): Record<string, string> => (hint === undefined ? {} : { [hintHeader]: hint });

/** One entry of a 422 response: a problem of the request's shape, in the form that existing clients expect (contract 1.5). */
export interface ValidationItem {
  type: string;
  loc: (string | number)[];
  msg: string;
  input: unknown;
  ctx?: Record<string, unknown>;
}

/**
 * All errors of this API, by code. Clients match the texts of contract 1.4 word for word. Each error needs a section in
 * docs/reference/errors.md; a guard compares the two.
 */
export const errors = {
  // Authentication and permissions
  /** @param hint names the header that is wrong. The body is the same for every caller. */
  invalidToken: (hint?: string) =>
    new ApiError("invalidToken", 401, "Invalid token", { headers: { "www-authenticate": "Bearer", ...hinted(hint) } }),
  tenantMismatch: (hint?: string) =>
    new ApiError("tenantMismatch", 403, "API key tenant mismatch", { headers: hinted(hint) }),
  workspaceRequired: () =>
    new ApiError(
      "workspaceRequired",
      403,
      "This API key is org-scoped and requires workspace specification. Please provide 'X-Tenant-ID' header.",
      { extra: { error: "org_scoped_key_requires_workspace" } },
    ),
  forbidden: (hint?: string) => new ApiError("forbidden", 403, "Forbidden", { headers: hinted(hint) }),
  roleMissing: (role: string) => new ApiError("roleMissing", 403, `This call needs a key with the role '${role}'.`),
  scopeMissing: (scope: string) => new ApiError("scopeMissing", 403, `This call needs an admin key of the ${scope}.`),
  deploymentsDisabled: () =>
    new ApiError("deploymentsDisabled", 403, "LangSmith Deployment is not enabled for this organization"),
  tooManyRequests: (retryAfterS: number) =>
    new ApiError("tooManyRequests", 429, `Too many requests. Try again in ${retryAfterS} s.`, {
      headers: { "retry-after": String(retryAfterS) },
    }),
  shareExceeded: (what: string, holder: "workspace" | "key", max: number) =>
    new ApiError(
      "shareExceeded",
      429,
      `This ${holder} holds its share of this server's ${what}, which is ${max} at the moment. Close some, or try again later.`,
      { headers: { "retry-after": "5" } },
    ),

  // Shape and transport
  invalidRequest: (items: readonly ValidationItem[]) =>
    new ApiError("invalidRequest", 422, items.map((item) => `${item.loc.join(".")}: ${item.msg}`).join("; "), {
      extra: { detail: items },
    }),
  routeNotFound: () => new ApiError("routeNotFound", 404, "Not Found"),
  methodNotAllowed: (allowed: readonly string[]) =>
    new ApiError("methodNotAllowed", 405, "Method Not Allowed", { headers: { allow: allowed.join(", ") } }),
  bodyTooLarge: (bytesMax: number) =>
    new ApiError("bodyTooLarge", 413, `The request body is larger than ${bytesMax} bytes.`),
  bodyTooManyValues: (valuesMax: number) =>
    new ApiError(
      "bodyTooManyValues",
      413,
      `The request body has more than ${valuesMax} values: members of objects and items of lists.`,
    ),
  bodyTooDeep: (depthMax: number) =>
    new ApiError("bodyTooDeep", 400, `The request body is nested deeper than ${depthMax} levels.`),
  bodyTooSlow: (withinS: number) =>
    new ApiError("bodyTooSlow", 408, `The request body did not arrive within ${withinS} s.`),
  idempotencyKeyReused: () =>
    new ApiError("idempotencyKeyReused", 409, "This Idempotency-Key was used for a different request."),
  changedMeanwhile: () =>
    new ApiError(
      "changedMeanwhile",
      412,
      "The deployment has changed since it was read (If-Match). Read it again and repeat the change with its new ETag.",
    ),
  unavailable: (because: string, retryAfterS: number) =>
    new ApiError("unavailable", 503, because, { headers: { "retry-after": String(retryAfterS) } }),
  /** Answers a longer delay than clients wait, because an early retry would fail again. */
  diskFull: () =>
    new ApiError(
      "diskFull",
      503,
      "The disk of the server is full. It can store nothing until its operator frees space. Running agents keep running.",
      { headers: { "retry-after": "30" } },
    ),

  // Deployments
  execOff: () =>
    new ApiError(
      "execOff",
      403,
      "The operator of this server does not allow programs beside agents (PIERHEAD_EXEC=false).",
    ),
  execUnavailable: (because: string) => new ApiError("execUnavailable", 409, because),
  deploymentNotFound: (id: string) => new ApiError("deploymentNotFound", 404, `Deployment ID ${id} not found.`),
  nameTaken: (name: string) => new ApiError("nameTaken", 409, `A deployment named '${name}' already exists.`),
  agentEnvironmentTaken: () =>
    new ApiError("agentEnvironmentTaken", 409, "A deployment already exists for this agent environment."),
  tracingProjectTaken: (name: string) =>
    new ApiError(
      "tracingProjectTaken",
      409,
      "Deployments create a tracing project in LangSmith with the same name as the deployment. " +
        `There already exists a project in LangSmith named: ${name}.`,
    ),
  beingDeleted: (id: string) => new ApiError("beingDeleted", 400, `Deployment ID ${id} is being deleted.`),
  forceNeedsDelete: (id: string) =>
    new ApiError(
      "forceNeedsDelete",
      400,
      `Deployment ID ${id} is not being deleted. Delete it first, then use 'force'.`,
    ),
  invalidName: (because: string) => new ApiError("invalidName", 400, `Invalid deployment name: ${because}`),

  // Fields that a source requires or forbids (contract 4.1, 4.2). `field` is the full path, such as source_config.repo_url.
  sourceNotInMode: (source: string, mode: string, available: readonly string[]) =>
    new ApiError(
      "sourceNotInMode",
      400,
      `Source '${source}' is not available in ${mode} mode; available: ${available.join(", ")}.`,
    ),
  fieldRequired: (field: string, source: string) =>
    new ApiError("fieldRequired", 400, `${part(field)}: '${field}' is required for source '${source}'.`),
  fieldNotApplicable: (field: string, source: string) =>
    new ApiError("fieldNotApplicable", 400, `${part(field)}: '${field}' is not applicable for source '${source}'.`),
  fieldImmutable: (field: string) =>
    new ApiError("fieldImmutable", 400, `${part(field)}: '${field}' cannot be changed after creation.`),
  invalidField: (field: string, because: string) =>
    new ApiError("invalidField", 400, `${part(field)}: '${field}' ${because}`),
  listenerRequired: (ids: readonly string[]) =>
    new ApiError(
      "listenerRequired",
      400,
      "Source configuration error: 'source_config.listener_id' is required for workspace with available listener IDs: " +
        `[${ids.map((id) => `'${id}'`).join(", ")}]`,
    ),
  noListenerMatches: (selector: string, because: string) =>
    new ApiError(
      "noListenerMatches",
      400,
      `Source configuration error: no listener fits 'source_config.listener_selector' (${selector}). ${because}`,
    ),
  buildOnPushOfTag: () =>
    new ApiError(
      "buildOnPushOfTag",
      400,
      "Source configuration error: build_on_push cannot be enabled when repo_ref is a tag.",
    ),
  revisionSourceUnusable: (because: string) =>
    new ApiError("revisionSourceUnusable", 400, `Source revision configuration error: ${because}`),
  invalidTarballPath: () => new ApiError("invalidTarballPath", 400, "Invalid source_tarball_path."),
  templateUnknown: (id: string, known: readonly string[]) =>
    new ApiError(
      "templateUnknown",
      400,
      `Source configuration error: template '${id}' is not in the catalogue; available: ${known.join(", ") || "none"}.`,
    ),

  // Secrets (contract 4.6)
  invalidSecret: (because: string) => new ApiError("invalidSecret", 400, `Secrets error: ${because}`),
  secretNameReserved: (names: readonly string[]) =>
    new ApiError(
      "secretNameReserved",
      400,
      `Secrets error: reserved names are set by the platform: ${names.join(", ")}.`,
    ),

  // Revisions
  revisionNotFound: (id: string) => new ApiError("revisionNotFound", 404, `Revision ID ${id} not found.`),
  revisionSettled: (id: string, status: string) =>
    new ApiError("revisionSettled", 400, `Revision ID ${id} is already ${status} and cannot be interrupted.`),
  neverServed: (id: string, status: string) =>
    new ApiError(
      "neverServed",
      400,
      `Revision ID ${id} is ${status}: it never served, so there is nothing to go back to. Redeploy it instead.`,
    ),
  nothingServes: (id: string) =>
    new ApiError("nothingServes", 400, `Deployment ID ${id} has no revision that serves. Retry or deploy it first.`),
  cannotScale: (because: string) => new ApiError("cannotScale", 400, because),
  nothingFailed: (id: string) =>
    new ApiError("nothingFailed", 400, `The newest revision of deployment ID ${id} did not fail. Redeploy it instead.`),
  latestNotApplicable: (source: string) =>
    new ApiError(
      "latestNotApplicable",
      400,
      `A deployment with source '${source}' follows no branch. Upload its source or push an image instead.`,
    ),
  revisionInProgress: (id: string, status: string) =>
    new ApiError("revisionInProgress", 400, `Revision ID ${id} is still ${status}. Redeploy it after it has ended.`),

  // Uploads and logs
  uploadNotApplicable: (source: string) =>
    new ApiError("uploadNotApplicable", 400, `Uploads are not available for source '${source}'.`),
  uploadUrlInvalid: () => new ApiError("uploadUrlInvalid", 403, "This upload URL is not valid or has expired."),
  contextUrlInvalid: () =>
    new ApiError("contextUrlInvalid", 403, "This URL of a build context is not valid or has expired."),
  listenerBuildsNothing: (id: string) =>
    new ApiError(
      "listenerBuildsNothing",
      400,
      `Listener ${id} builds no images. Set builds.registry in its chart and update the listener, or deploy an image (external_docker).`,
    ),
  uploadTooLarge: (bytesMax: number) =>
    new ApiError("uploadTooLarge", 413, `The upload is larger than ${bytesMax} bytes.`),
  uploadSpaceTaken: (limit: string, maxMib: number) =>
    new ApiError(
      "uploadSpaceTaken",
      413,
      `${limit === "total" ? "All workspaces" : "This workspace"} may store at most ${maxMib} MiB of uploads at the moment, and the upload does not fit. ` +
        "Delete deployments, or try again later: uploads that no revision uses are deleted after a day.",
    ),
  uploadNotStored: () =>
    new ApiError(
      "uploadNotStored",
      503,
      "The object storage of this server did not take the archive. Send it again in a moment.",
      { headers: { "retry-after": "5" } },
    ),
  uploadBroken: (because: string) => new ApiError("uploadBroken", 400, `The upload was refused: ${because}`),
  pushTokenNotApplicable: () =>
    new ApiError(
      "pushTokenNotApplicable",
      400,
      "Push tokens are only available for 'internal_docker' source deployments.",
    ),
  noRegistry: (because: string) => new ApiError("noRegistry", 503, `This server has no image registry: ${because}`),
  invalidLogCursor: () =>
    new ApiError("invalidLogCursor", 400, "This log offset does not come from an earlier response."),
  /** @param position in the query, in characters from 1. */
  invalidLogQuery: (because: string, position: number) =>
    new ApiError("invalidLogQuery", 400, `Log query, position ${position}: ${because}`, { extra: { position } }),

  eventsForgotten: () =>
    new ApiError(
      "eventsForgotten",
      410,
      "The events after this position have been deleted. Read the watched resources again and continue without 'after'.",
    ),

  // Variable groups
  variableGroupNotFound: (id: string) =>
    new ApiError("variableGroupNotFound", 404, `Variable group ID ${id} not found.`),
  variableGroupTaken: (name: string) =>
    new ApiError("variableGroupTaken", 409, `A variable group named '${name}' already exists.`),
  variableGroupInUse: (name: string, deployments: readonly string[]) =>
    new ApiError(
      "variableGroupInUse",
      409,
      `These deployments use the variable group '${name}': ${deployments.join(", ")}. Remove it from them first.`,
    ),
  tooManyVariableGroups: (max: number, what: string) =>
    new ApiError("tooManyVariableGroups", 400, `There can be at most ${max} ${what}.`),

  // Webhooks
  alertNotFound: (id: string) => new ApiError("alertNotFound", 404, `Alert ID ${id} not found.`),
  webhookNotFound: (id: string) => new ApiError("webhookNotFound", 404, `Webhook ID ${id} not found.`),
  deliveryNotFound: (id: string) => new ApiError("deliveryNotFound", 404, `Delivery ID ${id} not found.`),
  webhookDisabled: (id: string) =>
    new ApiError("webhookDisabled", 400, `Webhook ID ${id} is disabled. Enable it before you send to it.`),
  tooManyWebhooks: (max: number) => new ApiError("tooManyWebhooks", 400, `A workspace has at most ${max} webhooks.`),

  // Code hosts
  integrationNotFound: (id: string) => new ApiError("integrationNotFound", 404, `Integration ID ${id} not found.`),
  integrationInUse: (deployments: number) =>
    new ApiError("integrationInUse", 409, `${deployments} deployments read their repository with this integration.`),
  tooManyIntegrations: (max: number) =>
    new ApiError("tooManyIntegrations", 400, `A workspace has at most ${max} integrations.`),
  webhookUnsigned: () =>
    new ApiError("webhookUnsigned", 403, "The message is not signed with the secret of this webhook."),
  githubAppMissing: () =>
    new ApiError(
      "githubAppMissing",
      400,
      "This server has no GitHub App. Its operator can create one with: pierhead integrations app create. Until then, store a credential as an integration.",
    ),
  githubAppFixed: (because: string) =>
    new ApiError("githubAppFixed", 409, `This server already has a GitHub App. ${because}`),
  pickerSessionNotFound: () =>
    new ApiError(
      "pickerSessionNotFound",
      404,
      "Picker session not found. A session allows one choice and expires after one hour.",
    ),
  codeHostFailed: (because: string) => new ApiError("codeHostFailed", 502, `The code host did not answer. ${because}`),

  // Listeners and their protocol
  listenerNotFound: (id: string) => new ApiError("listenerNotFound", 404, `Listener ID ${id} not found.`),
  listenersNotAllowed: (workspaceId: string) =>
    new ApiError(
      "listenersNotAllowed",
      403,
      `Listeners cannot be created for LangSmith workspace ID '${workspaceId}'. ` +
        "Creating listeners is only allowed for LangSmith organizations with self-hosted enterprise plans.",
    ),
  listenerTaken: (workspaceId: string, computeId: string) =>
    new ApiError(
      "listenerTaken",
      409,
      `Listener for LangSmith workspace ID '${workspaceId}' and compute ID '${computeId}' already exists.`,
    ),
  listenerInUse: (deployments: number) =>
    new ApiError("listenerInUse", 409, `Listener has ${deployments} deployments.`),
  listenerBusy: () =>
    new ApiError("listenerBusy", 409, "Another instance of this listener holds the session.", {
      extra: { error: "listener_busy" },
    }),
  listenerDraining: () =>
    new ApiError("listenerDraining", 409, "This listener is draining and must not change anything.", {
      extra: { error: "listener_draining" },
    }),
  enrolled: () =>
    new ApiError(
      "enrolled",
      409,
      "This is already the key of a listener. Only an enrollment token can be exchanged for a key.",
    ),
  staleEpoch: () =>
    new ApiError("staleEpoch", 409, "A newer session of this listener exists. Open a new session.", {
      extra: { error: "stale_epoch" },
    }),
  desiredGone: () =>
    new ApiError(
      "desiredGone",
      410,
      "The server does not know what has changed since this version. List everything again, from 0.",
    ),
  protocolUnknown: (spoken: readonly number[]) =>
    new ApiError("protocolUnknown", 400, `No common protocol version. This server speaks ${spoken.join(", ")}.`),
  // Administration
  organizationNotFound: (id: string) => new ApiError("organizationNotFound", 404, `Organization ID ${id} not found.`),
  organizationInUse: (because: string) =>
    new ApiError("organizationInUse", 409, `The organization cannot be deleted: ${because}`),
  workspaceNotFound: (id: string) => new ApiError("workspaceNotFound", 404, `Workspace ID ${id} not found.`),
  workspaceNameTaken: (name: string) =>
    new ApiError("workspaceNameTaken", 409, `A workspace named '${name}' already exists in this organization.`),
  workspaceInUse: (because: string) =>
    new ApiError("workspaceInUse", 409, `The workspace cannot be deleted: ${because}`),
  deviceLoginNotFound: () =>
    new ApiError(
      "deviceLoginNotFound",
      404,
      "No command line waits under this code. The code is mistyped, was used, or is older than ten minutes.",
    ),
  apiKeyNotFound: (id: string) => new ApiError("apiKeyNotFound", 404, `API key ID ${id} not found.`),
  lastAdminKey: (scope: string) =>
    new ApiError("lastAdminKey", 409, `This is the last key that administers the ${scope}. Create another one first.`),
  memberNotFound: (id: string) => new ApiError("memberNotFound", 404, `Member ID ${id} not found.`),
  memberTaken: (email: string) => new ApiError("memberTaken", 409, `'${email}' is already a member.`),
  tagNotFound: (id: string) => new ApiError("tagNotFound", 404, `Tag ID ${id} not found.`),
  tagValueNotFound: (id: string) => new ApiError("tagValueNotFound", 404, `Tag value ID ${id} not found.`),
  tagNameTaken: (name: string) => new ApiError("tagNameTaken", 409, `'${name}' already exists.`),
  tooManyTags: (max: number, what: string) =>
    new ApiError("tooManyTags", 400, `There can be at most ${max} ${what}. Delete unused ones.`),
  invalidSetting: (field: string, because: string) => new ApiError("invalidSetting", 400, `'${field}' ${because}`),
  quotaExceeded: (quota: string, limit: number, because: string) =>
    new ApiError(
      "quotaExceeded",
      400,
      `The quota '${quota}' of this workspace is ${limit}${because} ` +
        "or ask an administrator of the organization for more.",
      { extra: { error: "quota_exceeded", quota, limit } },
    ),
  secretSetNotFound: (id: string) => new ApiError("secretSetNotFound", 404, `Secret set ID ${id} not found.`),

  // The OAuth service
  oauthProviderNotFound: (id: string) => new ApiError("oauthProviderNotFound", 404, `OAuth provider '${id}' not found`),
  oauthProviderTaken: (id: string) => new ApiError("oauthProviderTaken", 409, `OAuth provider '${id}' already exists.`),
  tooManyOAuthProviders: (max: number) =>
    new ApiError("tooManyOAuthProviders", 400, `An organization has at most ${max} OAuth providers.`),
  tooManyOAuthTokens: (max: number) =>
    new ApiError("tooManyOAuthTokens", 400, `A user or agent has at most ${max} tokens of one OAuth provider.`),
  invalidProvider: (field: string, because: string) =>
    new ApiError("invalidProvider", 400, `OAuth provider error: '${field}' ${because}`),
  oauthTokenNotFound: (id: string) => new ApiError("oauthTokenNotFound", 404, `OAuth token ID ${id} not found.`),
  agentConnectionNotFound: (id: string) =>
    new ApiError("agentConnectionNotFound", 404, `Agent connection ID ${id} not found.`),
  redirectUriNotAllowed: (id: string) =>
    new ApiError(
      "redirectUriNotAllowed",
      400,
      `'redirect_uri' is not one of the 'allowed_redirect_uris' of OAuth provider '${id}'; it must match one of them exactly.`,
    ),
  authRequestUnusable: () =>
    new ApiError(
      "authRequestUnusable",
      400,
      "This sign-in is unknown, has already been used, has expired, or was started by another user. Start it again.",
    ),
  authRequestFailed: (because: string) => new ApiError("authRequestFailed", 400, `The sign-in failed. ${because}`),
  oauthProviderFailed: (id: string, because: string) =>
    new ApiError("oauthProviderFailed", 502, `OAuth provider '${id}' cannot be used at the moment. ${because}`),
  mcpDiscoveryFailed: (because: string) =>
    new ApiError("mcpDiscoveryFailed", 400, `The MCP server's provider could not be set up: ${because}`),
};

export type ErrorCode = keyof typeof errors;

/** Returns the words that start the text of an error, by the part of the request that it concerns. */
function part(field: string): string {
  if (field.startsWith("source_revision_config")) return "Source revision configuration error";
  if (field.startsWith("source_config")) return "Source configuration error";
  if (field.startsWith("compute_config") || field === "labels") return "Listener configuration error";
  return "Deployment error";
}
