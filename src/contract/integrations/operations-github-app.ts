import { operation } from "../operation.ts";
import {
  CreateGithubAppLink,
  GithubAppFormQuery,
  GithubAppLink,
  GithubAppMadeQuery,
  ServerGithubApp,
} from "./github-app.ts";

const tag = "Integrations";

/** The GitHub App of the server, which GitHub creates from a manifest (contract 10.1). */
export const githubAppOperations = {
  createGithubAppLink: operation("createGithubAppLink", {
    operationId: "create_github_app_link_v2_admin_integrations_github_app_post",
    tag,
    summary: "Create a link that creates this server's GitHub App at GitHub; works once, within an hour",
    body: CreateGithubAppLink,
    bodyRequired: false,
    response: { status: 200, schema: GithubAppLink },
    errors: ["githubAppFixed", "invalidField"],
    role: "admin",
    administers: "installation",
  }),
  getGithubApp: operation("getGithubApp", {
    operationId: "get_github_app_v2_admin_integrations_github_app_get",
    tag,
    summary: "Read the GitHub App of this server",
    response: { status: 200, schema: ServerGithubApp },
    errors: ["githubAppMissing"],
    role: "admin",
    administers: "installation",
  }),
  deleteGithubApp: operation("deleteGithubApp", {
    operationId: "delete_github_app_v2_admin_integrations_github_app_delete",
    tag,
    summary: "Forget the GitHub App that a link created; it still exists at GitHub",
    response: { status: 204, schema: null },
    errors: ["githubAppMissing", "githubAppFixed"],
    role: "admin",
    administers: "installation",
  }),
  showGithubAppForm: operation("showGithubAppForm", {
    operationId: "show_github_app_form_v2_auth_github_app_get",
    tag,
    summary: "Show the page of such a link, which explains the request and leads to GitHub",
    query: GithubAppFormQuery,
    response: { status: 200, schema: null, isPage: true },
    role: "none",
  }),
  finishGithubApp: operation("finishGithubApp", {
    operationId: "finish_github_app_v2_auth_github_app_created_get",
    tag,
    summary: "Receive the browser from GitHub after it has created the App; answers with a page",
    query: GithubAppMadeQuery,
    response: { status: 200, schema: null, isPage: true },
    role: "none",
  }),
};
