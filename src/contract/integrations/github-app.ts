import { type Static, Type } from "typebox";
import { given, literals, nullable, timestamp } from "../schema.ts";

/** The App that GitHub is to make for this server (contract 10.1). */
export const CreateGithubAppLink = Type.Object(
  {
    github_url: given(
      Type.String({ minLength: 1, maxLength: 2_048, examples: ["https://github.example.org"] }),
      "GitHub, or an Enterprise Server. Default: PIERHEAD_GITHUB_URL.",
    ),
    organization: given(
      Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", examples: ["acme"] }),
      "Organization at GitHub that is to own the App. Default: whoever opens the link.",
    ),
    name: given(
      Type.String({ minLength: 1, maxLength: 34, examples: ["Pierhead of Acme"] }),
      "No other App at GitHub has it; it can be changed on GitHub's page. Default: made of this server's address.",
    ),
    public: given(
      Type.Boolean(),
      "Whether other accounts than the App's owner may install it. Default: in cloud mode only.",
    ),
  },
  { $id: "CreateGithubAppLink" },
);

export const GithubAppLink = Type.Object(
  {
    create_url: Type.String({
      description: "Page of this server that leads to GitHub; to be opened in a browser, good once.",
      examples: ["https://pierhead.example.org/v2/auth/github-app?state=Zk3v"],
    }),
    expires_at: timestamp(),
  },
  { $id: "GithubAppLink" },
);

export const ServerGithubApp = Type.Object(
  {
    app_id: Type.String({ examples: ["1337"] }),
    source: literals(["configuration", "manifest"], { description: "Where the server has it from." }),
    github_url: Type.String({ examples: ["https://github.com"] }),
    name: nullable(Type.String({ examples: ["Pierhead of Acme"] }), "null: not known of one in the configuration."),
    page_url: nullable(Type.String({ examples: ["https://github.com/apps/pierhead-of-acme"] })),
    hears_pushes: Type.Boolean({
      description: "GitHub tells of pushes; otherwise branches are looked at every few minutes.",
    }),
    proves_owners: Type.Boolean({ description: "An installation is taken only from who has access to it." }),
    created_at: nullable(timestamp()),
  },
  { $id: "ServerGithubApp", description: "The GitHub App of this server; its secrets are never shown." },
);
export type ServerGithubApp = Static<typeof ServerGithubApp>;

const state = Type.Optional(Type.String({ maxLength: 512, description: "Names the link that led here." }));

export const GithubAppFormQuery = Type.Object({ state });

/** What GitHub sends through the browser when it has made an App. */
export const GithubAppMadeQuery = Type.Object({
  state,
  code: Type.Optional(Type.String({ maxLength: 512, description: "Good once, for the App's secrets." })),
});
