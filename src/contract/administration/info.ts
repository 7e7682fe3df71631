import { type Static, Type } from "typebox";
import { SourceKind } from "../deployments/deployment.ts";
import { literals, nullable } from "../schema.ts";

export const Mode = literals(["standalone", "cloud", "self_hosted"]);
export type Mode = Static<typeof Mode>;

export const Ok = Type.Object({ ok: Type.Boolean({ examples: [true] }) }, { $id: "Ok" });
export type Ok = Static<typeof Ok>;

/** Response of `GET /ready`: 200 when the migrations are done and the loops run, 503 otherwise. */
export const Readiness = Type.Object(
  {
    ready: Type.Boolean({ examples: [true] }),
    waiting_for: Type.Array(Type.String(), {
      description: "Parts that are not ready. Empty when ready.",
      examples: [[]],
    }),
  },
  { $id: "Readiness" },
);
export type Readiness = Static<typeof Readiness>;

export const Region = Type.Object(
  { name: Type.String(), url: Type.String({ description: "Base URL of the region's API." }) },
  { $id: "Region" },
);
export type Region = Static<typeof Region>;

/** Response of `GET /info`: the kind of this installation. */
export const Info = Type.Object(
  {
    version: Type.String({ description: "Version of Pierhead." }),
    mode: Mode,
    region: Type.String({ description: "Name of the region that sent this response." }),
    regions: Type.Array(Region),
    sources: Type.Array(SourceKind, { description: "Sources that this installation accepts for deployments." }),
    builtin_data_plane: Type.Boolean({
      description: "Whether this installation runs deployments itself. false: each one needs a listener.",
    }),
    agents_domain: nullable(
      Type.String({ examples: ["agents.example.net"] }),
      "Domain whose names serve the agents of this installation. null: they answer below its own address.",
    ),
    sign_in: nullable(
      Type.Object({
        name: Type.String({ description: "Display name of the identity provider.", examples: ["Example ID"] }),
        url: Type.String({
          description: "Address at which a browser starts the sign-in.",
          examples: ["https://pierhead.example.org/v2/session/oidc"],
        }),
      }),
      "Identity provider for signing in to the console. null: only API keys can sign in.",
    ),
  },
  {
    $id: "Info",
    examples: [
      {
        version: "0.1.0",
        mode: "standalone",
        region: "local",
        regions: [{ name: "local", url: "http://127.0.0.1:8124" }],
        sources: SourceKind.enum,
        builtin_data_plane: true,
        agents_domain: null,
        sign_in: null,
      },
    ],
  },
);
export type Info = Static<typeof Info>;
