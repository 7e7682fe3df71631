import { readFile } from "node:fs/promises";
import { createGithubApp, type GithubApp, type GithubApps, githubAddress } from "../integrations/github-app.ts";
import { findGithubApp } from "../store/code-hosts/github-app.ts";
import type { Db } from "../store/engine/database.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import type { Config } from "./config.ts";

type GithubConfig = Pick<
  Config,
  | "githubUrl"
  | "githubAppId"
  | "githubPrivateKey"
  | "githubPrivateKeyFile"
  | "githubWebhookSecret"
  | "githubClientId"
  | "githubClientSecret"
  | "allowPrivateNetwork"
>;

/**
 * Returns the configured GitHub App, or else the App created from this server's manifest. It reads the latter from the database
 * each time, because another server may have created it a moment ago.
 * @throws Error naming the variable that is missing or wrong.
 */
export async function openGithubApps(config: GithubConfig, store: { db: Db; sealer: Sealer }): Promise<GithubApps> {
  const configured = await configuredApp(config);
  if (configured !== null) return { isConfigured: true, current: async () => configured };
  const configuredUrl = webUrlOf(config);
  let known: { id: string; app: GithubApp } | undefined;
  return {
    isConfigured: false,
    async current() {
      const stored = await findGithubApp(store.db, store.sealer);
      if (stored === undefined) return null;
      const { id, app_id: appId, url: webUrl } = stored;
      const allowPrivateNetwork = config.allowPrivateNetwork || webUrl === configuredUrl;
      if (known?.id !== id)
        known = { id, app: createGithubApp({ ...stored.open(), appId, webUrl, allowPrivateNetwork }) };
      return known.app;
    },
  };
}

async function configuredApp(config: GithubConfig): Promise<GithubApp | null> {
  const { githubAppId: appId, githubPrivateKeyFile: file, githubClientId, githubClientSecret } = config;
  const privateKey = config.githubPrivateKey ?? (file === undefined ? undefined : await readFile(file, "utf8"));
  if (appId === undefined && privateKey === undefined) return null;
  if (appId === undefined || privateKey === undefined) {
    throw new Error("a GitHub App needs both PIERHEAD_GITHUB_APP_ID and PIERHEAD_GITHUB_PRIVATE_KEY (or _FILE)");
  }
  if (!/^[\w.-]+$/.test(appId)) throw new Error("PIERHEAD_GITHUB_APP_ID must be the App's id, a number");
  return createGithubApp({
    ...{ appId, privateKey },
    webhookSecret: config.githubWebhookSecret ?? null,
    webUrl: webUrlOf(config),
    client:
      githubClientId === undefined || githubClientSecret === undefined
        ? null
        : { id: githubClientId, secret: githubClientSecret },
    // The operator chose this address, so it may be private.
    allowPrivateNetwork: true,
  });
}

function webUrlOf({ githubUrl }: Pick<Config, "githubUrl">): string {
  const url = githubAddress(githubUrl);
  if (url !== null) return url;
  throw new Error(`PIERHEAD_GITHUB_URL must be a URL such as https://github.example.org, got "${githubUrl}"`);
}
