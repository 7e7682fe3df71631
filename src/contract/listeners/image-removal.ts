import { type Static, Type } from "typebox";
import { nullable, uuid } from "../schema.ts";

/** Images that a listener removes from the registry to which it pushed them. */

/** Images that no revision needs. The listener pushes nothing until the removal has ended. */
export const ImageRemoval = Type.Object({
  removal_id: uuid("Attempt at a removal."),
  references: Type.Array(Type.String({ maxLength: 256 }), {
    maxItems: 100,
    description: "Digests of manifests, and tags of caches, in the repository of the listener.",
  }),
  timeout_s: Type.Integer({ description: "The removal must end within this time." }),
});
export type ImageRemoval = Static<typeof ImageRemoval>;

/** The end of a removal. Images that are neither removed nor missing are tried again later. */
export const ImageRemovalEnd = Type.Object({
  removal_id: uuid("From the answer with the images."),
  removed: Type.Array(Type.String({ maxLength: 256 }), {
    maxItems: 100,
    description: "References that the registry no longer has.",
  }),
  message: nullable(Type.String({ maxLength: 16_384 }), "Why others are left; null: none is left."),
});
export type ImageRemovalEnd = Static<typeof ImageRemovalEnd>;

export const ImageRemovalClaim = Type.Object({
  ended: nullable(ImageRemovalEnd, "The removal that has ended since the last call; null: none has."),
});
export type ImageRemovalClaim = Static<typeof ImageRemovalClaim>;

export const ImageRemovalAnswer = Type.Object({
  removal: nullable(ImageRemoval, "null: there is nothing to remove now."),
});
export type ImageRemovalAnswer = Static<typeof ImageRemovalAnswer>;
