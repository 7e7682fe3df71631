import { listTemplates } from "../../builds/sources/templates.ts";
import { ApiError } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { modes, shownRegions } from "../../domain/mode.ts";
import { type Api, adminRoute, openRoute, route } from "../http/route.ts";
import { signInUrlOf } from "./sign-in-urls.ts";

/** Adds the routes that describe the installation and its health. */
export function addInfoRoutes(api: Api): void {
  const { settings, readiness } = api.deps;
  const { mode, region, version } = settings;
  const info = {
    version,
    mode,
    region,
    regions: shownRegions(mode, region, settings.regions),
    sources: [...modes[mode].sources],
    builtin_data_plane: settings.hasBuiltinDataPlane,
    agents_domain: settings.agentsDomain,
  };

  openRoute(api, operations.getOk, () => ({ ok: true }));
  openRoute(api, operations.getHealth, () => ({ ok: true }));
  openRoute(api, operations.getInfo, () => {
    const { oidc } = settings;
    return { ...info, sign_in: oidc === null ? null : { name: oidc.name, url: signInUrlOf(settings) } };
  });
  route(api, operations.listTemplates, async () => {
    const found = await listTemplates(settings.templatesDir);
    return { templates: found.map(({ id, name, description }) => ({ id, name, description })) };
  });
  adminRoute(api, operations.getPosture, async () => settings.posture);
  openRoute(api, operations.getReadiness, () => {
    const waitingFor = readiness();
    if (waitingFor.length === 0) return { ready: true, waiting_for: [] };
    throw new ApiError("unavailable", 503, `Waiting for ${waitingFor.join(", ")}.`, {
      headers: { "retry-after": "1" },
      extra: { ready: false, waiting_for: waitingFor },
    });
  });
}
