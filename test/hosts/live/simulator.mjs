// A third-party GitHub simulator: answers from GitHub's published OpenAPI document and rejects requests that do not match it.
import { simulation } from "@simulacrum/github-api-simulator";

const initialState = {
  users: [{ login: "octocat", organizations: ["acme"] }],
  organizations: [{ login: "acme" }],
  repositories: [
    { owner: "acme", name: "support-bot" },
    { owner: "acme", name: "another-bot" },
  ],
  branches: [],
  blobs: [],
};
const { port } = await simulation({ apiUrl: "/api/v3", initialState }).listen(Number(process.argv[2]));
process.send?.({ port });
process.once("disconnect", () => process.exit());
