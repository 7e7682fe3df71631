import type { ErrorCode } from "../error.ts";
import { operation } from "../operation.ts";
import {
  CreateOAuthProvider,
  DiscoverMcpProvider,
  OAuthPresetList,
  OAuthProvider,
  OAuthProviderList,
  OAuthProviderPath,
  PatchOAuthProvider,
  PlatformProviderList,
  ResultMessage,
} from "./oauth-provider.ts";

const tag = "Auth";
const unknownProvider: readonly ErrorCode[] = ["oauthProviderNotFound"];

/**
 * OAuth servers at which an organization has registered a client (contract 9.2). In an organization with several
 * workspaces, changing and deleting them needs the organization's key.
 */
export const oauthProviderOperations = {
  listOAuthProviders: operation("listOAuthProviders", {
    operationId: "list_oauth_providers_v2_auth_providers_get",
    tag,
    summary: "List the organization's OAuth providers",
    response: { status: 200, schema: OAuthProviderList },
    role: "reader",
  }),
  listPlatformProviders: operation("listPlatformProviders", {
    operationId: "list_platform_providers_v2_auth_platform_providers_get",
    tag,
    summary: "List providers that come with the installation; always empty",
    response: { status: 200, schema: PlatformProviderList },
    role: "reader",
  }),
  listOAuthPresets: operation("listOAuthPresets", {
    operationId: "list_oauth_presets_v2_auth_provider_presets_get",
    tag,
    summary: "List presets of common providers, for the `preset` field of a new provider",
    response: { status: 200, schema: OAuthPresetList },
    role: "reader",
  }),
  createOAuthProvider: operation("createOAuthProvider", {
    operationId: "create_oauth_provider_v2_auth_providers_post",
    tag,
    summary: "Add a provider at which you have registered an application",
    body: CreateOAuthProvider,
    response: { status: 200, schema: OAuthProvider },
    errors: ["oauthProviderTaken", "invalidProvider", "tooManyOAuthProviders"],
    role: "admin",
  }),
  discoverMcpProvider: operation("discoverMcpProvider", {
    operationId: "discover_mcp_provider_v2_auth_providers_mcp_discover_post",
    tag,
    summary: "Add the provider of an MCP server: discover it by its address and register a client",
    body: DiscoverMcpProvider,
    response: { status: 200, schema: OAuthProvider },
    errors: ["oauthProviderTaken", "invalidProvider", "mcpDiscoveryFailed", "tooManyOAuthProviders"],
    role: "admin",
  }),
  getOAuthProvider: operation("getOAuthProvider", {
    operationId: "get_oauth_provider_v2_auth_providers__provider_id__get",
    tag,
    summary: "Read a provider",
    params: OAuthProviderPath,
    response: { status: 200, schema: OAuthProvider },
    errors: unknownProvider,
    role: "reader",
  }),
  patchOAuthProvider: operation("patchOAuthProvider", {
    operationId: "update_oauth_provider_v2_auth_providers__provider_id__patch",
    tag,
    summary: "Change a provider",
    params: OAuthProviderPath,
    body: PatchOAuthProvider,
    response: { status: 200, schema: OAuthProvider },
    errors: ["oauthProviderNotFound", "invalidProvider", "scopeMissing"],
    role: "admin",
  }),
  deleteOAuthProvider: operation("deleteOAuthProvider", {
    operationId: "delete_oauth_provider_v2_auth_providers__provider_id__delete",
    tag,
    summary: "Delete a provider and all its tokens",
    params: OAuthProviderPath,
    response: { status: 200, schema: ResultMessage },
    errors: ["oauthProviderNotFound", "scopeMissing"],
    role: "admin",
  }),
};
