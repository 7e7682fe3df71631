import type { gitOperations } from "../../contract/integrations/operations-git.ts";
import type { githubAppOperations } from "../../contract/integrations/operations-github-app.ts";
import type { integrationOperations } from "../../contract/integrations/operations-integrations.ts";
import type { Route } from "./routes.ts";

/** What hosts send, and pages for browsers, are not among them. */
export type IntegrationOperations = typeof integrationOperations &
  Omit<typeof gitOperations, "receiveGithubWebhook" | "receiveHostWebhook"> &
  Omit<typeof githubAppOperations, "showGithubAppForm" | "finishGithubApp">;

const app = "/v2/admin/integrations/github/app";
const picker = "/v2/integrations/forge-github/picker-sessions/{session_id}";
const one = "/v2/integrations/{integration_id}";

/** Verb and path of what is about code hosts; `routes.ts` says why they stand here once more. */
export const integrationRoutes: Record<keyof IntegrationOperations, Route> = {
  listGithubInstalls: { verb: "GET", path: "/v1/integrations/github/install" },
  listGithubRepos: { verb: "GET", path: "/v1/integrations/github/{integration_id}/repos" },
  listForgeInstalls: { verb: "GET", path: "/v1/integrations/forge/github/install" },
  listForgeRepos: { verb: "GET", path: "/v1/integrations/forge/github/{integration_id}/repos" },
  pageGithubInstallations: { verb: "GET", path: "/v2/integrations/github/installations" },
  pageGithubRepositories: {
    verb: "GET",
    path: "/v2/integrations/github/installations/{integration_id}/repositories",
  },
  pageForgeInstallations: { verb: "GET", path: "/v2/integrations/forge-github/installations" },
  createInstallationLink: { verb: "POST", path: "/v2/integrations/github/installation-link" },
  createForgeInstallationLink: { verb: "POST", path: "/v2/integrations/forge-github/installation-link" },
  getPickerSession: { verb: "GET", path: picker },
  selectInstallation: { verb: "POST", path: `${picker}/selection` },
  attachInstallation: { verb: "POST", path: "/v2/admin/integrations/github" },
  createGithubAppLink: { verb: "POST", path: app },
  getGithubApp: { verb: "GET", path: app },
  deleteGithubApp: { verb: "DELETE", path: app },
  findAgentProjects: { verb: "GET", path: "/v2/integrations/projects" },
  listIntegrations: { verb: "GET", path: "/v2/integrations" },
  createIntegration: { verb: "POST", path: "/v2/integrations" },
  getIntegration: { verb: "GET", path: one },
  patchIntegration: { verb: "PATCH", path: one },
  replaceIntegrationSecret: { verb: "POST", path: `${one}/webhook-secret` },
  getGitSettings: { verb: "GET", path: "/v2/deployments/{deployment_id}/git" },
  patchGitSettings: { verb: "PATCH", path: "/v2/deployments/{deployment_id}/git" },
  deleteIntegration: { verb: "DELETE", path: one },
};
