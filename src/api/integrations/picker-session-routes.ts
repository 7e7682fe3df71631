import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { createInstallationLink } from "../../store/code-hosts/installation-links.ts";
import { createIntegration } from "../../store/code-hosts/integrations.ts";
import { endPickerSession, findPickerSession } from "../../store/code-hosts/picker-sessions.ts";
import { type Api, route } from "../http/route.ts";
import { callCodeHost, requireApp } from "./call-code-host.ts";
import { appIntegration } from "./finish-installation.ts";

/** Adds the routes that choose which of a user's installations the workspace gets (contract 3.6). */
export function addPickerRoutes(api: Api): void {
  const { db, sealer, github, settings } = api.deps;

  /** @throws ApiError 404 with the same text for unknown ids and those of other workspaces. */
  const find = async (tenantId: string, id: string) => {
    const session = await findPickerSession(db, tenantId, id);
    if (session === undefined) throw errors.pickerSessionNotFound();
    return session;
  };

  route(api, operations.getPickerSession, ({ principal, params }) => find(principal.tenantId, params.session_id));

  route(api, operations.selectInstallation, async ({ principal, params, body, signal }) => {
    const { installs, return_to: returnTo } = await find(principal.tenantId, params.session_id);
    const app = await requireApp(github);
    const end = async () => {
      if (!(await endPickerSession(db, principal.tenantId, params.session_id))) throw errors.pickerSessionNotFound();
    };
    if (body.action === "INSTALL_NEW") {
      const page = await callCodeHost(() => app.installUrl(signal));
      await end();
      const state = await createInstallationLink(db, principal, returnTo);
      return { redirect_url: `${page}?${new URLSearchParams({ state })}` };
    }
    const chosen = installs.find(({ installation_id }) => installation_id === body.installation_id);
    if (chosen === undefined) throw errors.invalidField("installation_id", "must be one of the session's installs.");
    const installation = await callCodeHost(() => app.readInstallation(chosen.installation_id, signal));
    await end();
    await createIntegration(db, sealer, principal, appIntegration(app, installation));
    return { redirect_url: returnTo ?? `${settings.ownUrl().replace(/\/+$/, "")}/host/integrations` };
  });
}
