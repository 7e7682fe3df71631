import type { administrationOperations } from "../../contract/administration/operations-administration.ts";
import type { tagOperations } from "../../contract/administration/operations-tags.ts";
import type { Route } from "./routes.ts";

/** A backup is a file: `Client.downloadBackup` gets it. */
export type AdminOperations = Omit<typeof administrationOperations, "getBackup"> & typeof tagOperations;

const admin = "/v2/admin";

/** Verb and path of the operations that administer; `routes.ts` says why they stand here once more. */
export const adminRoutes: Record<keyof AdminOperations, Route> = {
  listOrganizations: get("/organizations"),
  createOrganization: post("/organizations"),
  getOrganization: get("/organizations/{organization_id}"),
  patchOrganization: patch("/organizations/{organization_id}"),
  deleteOrganization: remove("/organizations/{organization_id}"),
  listWorkspaces: get("/workspaces"),
  createWorkspace: post("/workspaces"),
  getWorkspace: get("/workspaces/{workspace_id}"),
  patchWorkspace: patch("/workspaces/{workspace_id}"),
  deleteWorkspace: remove("/workspaces/{workspace_id}"),
  getQuotas: get("/workspaces/{workspace_id}/quotas"),
  patchQuotas: patch("/workspaces/{workspace_id}/quotas"),
  listApiKeys: get("/api-keys"),
  createApiKey: post("/api-keys"),
  getApiKey: get("/api-keys/{api_key_id}"),
  revokeApiKey: remove("/api-keys/{api_key_id}"),
  listMembers: get("/members"),
  createMember: post("/members"),
  getMember: get("/members/{member_id}"),
  patchMember: patch("/members/{member_id}"),
  deleteMember: remove("/members/{member_id}"),
  listAuditLog: get("/audit-log"),
  listTags: get("/tags"),
  createTag: post("/tags"),
  getTag: get("/tags/{tag_id}"),
  patchTag: patch("/tags/{tag_id}"),
  deleteTag: remove("/tags/{tag_id}"),
  createTagValue: post("/tags/{tag_id}/values"),
  patchTagValue: patch("/tags/{tag_id}/values/{tag_value_id}"),
  deleteTagValue: remove("/tags/{tag_id}/values/{tag_value_id}"),
  getDeploymentTags: get("/deployments/{deployment_id}/tags"),
  putDeploymentTags: { verb: "PUT", path: `${admin}/deployments/{deployment_id}/tags` },
};

function get(path: string): Route {
  return { verb: "GET", path: admin + path };
}

function post(path: string): Route {
  return { verb: "POST", path: admin + path };
}

function patch(path: string): Route {
  return { verb: "PATCH", path: admin + path };
}

function remove(path: string): Route {
  return { verb: "DELETE", path: admin + path };
}
