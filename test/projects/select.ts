import path from "node:path";
import { type Page, readPages } from "./pages.ts";
import { type Project, projects } from "./table.ts";

/** Environment with uv, which is not on the PATH of the other projects. */
export const uvDirectory = path.resolve("node_modules/.cache/pierhead/test-uv");

/** Names of the projects to deploy and the pages to follow, one a line. Absent: all. */
export const selectionVariable = "PIERHEAD_TEST_PROJECTS";

export function selectedProjects({ withUv }: { withUv: boolean }): Project[] {
  const names = process.env[selectionVariable]?.split("\n");
  return projects.filter(
    ({ name, needs }) => needs.includes("uv") === withUv && (names === undefined || names.includes(name)),
  );
}

export function selectedPages(): Page[] {
  const names = process.env[selectionVariable]?.split("\n");
  return readPages().filter((page) => names === undefined || names.includes(nameOfPage(page)));
}

/** Projects and pages are selected by name, and some have the same. */
export const nameOfPage = ({ name }: Pick<Page, "name">): string => `page ${name}`;
