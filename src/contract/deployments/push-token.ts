import { type Static, Type } from "typebox";

/** Result of D10: credentials for `docker login` and `docker push`. */
export const PushToken = Type.Object(
  {
    token: Type.String({
      description: "Password of the user oauth2accesstoken. Valid for an hour, and only for images of this deployment.",
      examples: ["push.6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11.1795250000000.uK3"],
    }),
    registry_url: Type.String({
      description: "Push to <registry_url>/<name>:<tag>. Log in at the part before the first slash.",
      examples: ["127.0.0.1:8124/r/6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11"],
    }),
  },
  { $id: "PushToken" },
);
export type PushToken = Static<typeof PushToken>;
