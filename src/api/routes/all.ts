import { openOAuth } from "../oauth.ts";
import type { Api } from "../route.ts";
import { addAuditRoutes } from "./admin-audit.ts";
import { addApiKeyRoutes } from "./admin-keys.ts";
import { addMemberRoutes } from "./admin-members.ts";
import { addTagRoutes } from "./admin-tags.ts";
import { addTenantRoutes } from "./admin-tenants.ts";
import { addAuthConnectionRoutes } from "./auth-connections.ts";
import { addAuthFlowRoutes } from "./auth-flows.ts";
import { addAuthProviderRoutes } from "./auth-providers.ts";
import { addAuthTokenRoutes } from "./auth-tokens.ts";
import { addDebugRoutes } from "./debug.ts";
import { addDeletionRoutes } from "./deployment-deletion.ts";
import { addSizeRoutes } from "./deployment-sizes.ts";
import { addDeploymentRoutes } from "./deployments.ts";
import { addEventRoutes } from "./events.ts";
import { addInfoRoutes } from "./info.ts";
import { addListenerProtocol } from "./listener-protocol.ts";
import { addListenerRoutes } from "./listeners.ts";
import { addLogRoutes } from "./logs.ts";
import { addMetricsRoutes } from "./metrics.ts";
import { addRevisionRoutes } from "./revisions.ts";
import { addUploadRoutes } from "./uploads.ts";

/** Every operation of `contract/operations.ts` gets its handler here; a test compares the two. */
export function addRoutes(api: Api): void {
  addInfoRoutes(api);
  addDeploymentRoutes(api);
  addDeletionRoutes(api);
  addSizeRoutes(api);
  addRevisionRoutes(api);
  addUploadRoutes(api);
  addLogRoutes(api);
  addMetricsRoutes(api);
  addEventRoutes(api);
  addListenerRoutes(api);
  addTenantRoutes(api);
  addApiKeyRoutes(api);
  addMemberRoutes(api);
  addTagRoutes(api);
  addAuditRoutes(api);
  const oauth = openOAuth(api);
  addAuthProviderRoutes(api, oauth);
  addAuthFlowRoutes(api, oauth);
  addAuthTokenRoutes(api, oauth);
  addAuthConnectionRoutes(api, oauth);
  addListenerProtocol(api);
  addDebugRoutes(api);
}
