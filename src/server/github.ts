import { readFile } from "node:fs/promises";
import { createGithubApp, type GithubApp } from "../integrations/github-app.ts";
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
>;

/**
 * The GitHub App that the operator has set up; null: none.
 * @throws Error naming the variable that is missing or wrong.
 */
export async function openGithubApp(config: GithubConfig): Promise<GithubApp | null> {
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
    webUrl: addressOf(config.githubUrl),
    client:
      githubClientId === undefined || githubClientSecret === undefined
        ? null
        : { id: githubClientId, secret: githubClientSecret },
  });
}

function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !["https:", "http:"].includes(url.protocol) || url.search !== "" || url.hash !== "") {
    throw new Error(`PIERHEAD_GITHUB_URL must be such as https://github.example.org, got "${text}"`);
  }
  return url.href.replace(/\/+$/, "");
}
