import { errors } from "../../contract/error.ts";
import type { CreateIntegration, Integration, PatchIntegration } from "../../contract/integrations/integration.ts";
import { operations } from "../../contract/operations.ts";
import { checkCredential, integrationUrl } from "../../domain/integration-rules.ts";
import { newWebhookSecret } from "../../integrations/webhook-signature.ts";
import {
  changeIntegration,
  createIntegration,
  deleteIntegration,
  type IntegrationRow,
  type IntegrationSecrets,
  listIntegrations,
  readIntegration,
} from "../../store/code-hosts/integrations.ts";
import { type Api, route } from "../http/route.ts";

/** Adds the routes of integrations of all hosts: those with stored credentials, and those of the GitHub App. */
export function addIntegrationRoutes(api: Api): void {
  const { db, sealer, settings } = api.deps;
  const shown = (row: IntegrationRow) => integrationOf(row, settings.ownUrl());

  route(api, operations.listIntegrations, async ({ principal, query }) => {
    const rows = await listIntegrations(db, principal.tenantId, { ...query, isApp: false });
    return { resources: rows.map(shown), offset: query.offset + rows.length };
  });

  route(api, operations.createIntegration, async ({ principal, body }) => {
    const secrets = { ...checkedSecrets(body), webhookSecret: newWebhookSecret(body.host) };
    const { host, name, username = null } = body;
    const url = integrationUrl(body.url, secrets);
    const row = await createIntegration(db, sealer, principal, {
      host,
      name,
      url,
      username,
      installation_id: null,
      secrets,
    });
    return { ...shown(row), webhook_secret: secrets.webhookSecret };
  });

  route(api, operations.getIntegration, async ({ principal, params }) =>
    shown(await readIntegration(db, principal.tenantId, params.integration_id)),
  );

  route(api, operations.patchIntegration, async ({ principal, params, body }) => {
    const { id } = await readStored(principal.tenantId, params.integration_id, hasCredential(body));
    const { name, username } = body;
    const change = { ...(name != null && { name }), ...(username != null && { username }) };
    const secrets = hasCredential(body) ? checkedSecrets(body) : {};
    return shown(
      await changeIntegration(db, sealer, principal, { id, ...change, secrets, action: "integration.patch" }),
    );
  });

  route(api, operations.replaceIntegrationSecret, async ({ principal, params, body }) => {
    const { id, host } = await readStored(principal.tenantId, params.integration_id, true);
    const webhookSecret = body.webhook_secret ?? newWebhookSecret(host);
    const action = "integration.replace_secret";
    await changeIntegration(db, sealer, principal, { id, secrets: { webhookSecret }, action });
    return { webhook_secret: webhookSecret };
  });

  route(api, operations.deleteIntegration, ({ principal, params }) =>
    deleteIntegration(db, principal, params.integration_id),
  );

  /** Returns an integration. @throws ApiError 404; 400 for an installation of the App when `isStored` excludes it. */
  async function readStored(tenantId: string, id: string, isStored: boolean): Promise<IntegrationRow> {
    const row = await readIntegration(db, tenantId, id);
    if (isStored && row.installation_id !== null) {
      throw errors.invalidField(
        "integration_id",
        "is an installation of the GitHub App, which has no secrets of its own.",
      );
    }
    return row;
  }
}

const hasCredential = ({ token, ssh_key }: PatchIntegration) => token != null || ssh_key != null;

/** Returns all parts of the credential, because a mix of old and new parts would surprise the user. */
function checkedSecrets(body: CreateIntegration | PatchIntegration): Omit<IntegrationSecrets, "webhookSecret"> {
  const { token = null, ssh_key: sshKey = null, ssh_known_hosts: sshKnownHosts = null } = body;
  checkCredential({ token, sshKey, sshKnownHosts });
  return { token, sshKey, sshKnownHosts };
}

/** Returns the wire shape of an integration, without its secrets. */
function integrationOf(row: IntegrationRow, ownUrl: string): Integration {
  const { id, host, name, url, username, installation_id, has_token, has_ssh_key } = row;
  const receivesWebhooks = installation_id === null && host !== "git";
  return {
    id,
    host,
    name,
    url,
    username,
    installation_id,
    has_token,
    has_ssh_key,
    webhook_url: receivesWebhooks ? `${ownUrl.replace(/\/+$/, "")}/v1/integrations/${id}/webhook` : null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
