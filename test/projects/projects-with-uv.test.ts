import path from "node:path";
import { testProjects } from "./deploy.ts";
import { selectedProjects, uvDirectory } from "./select.ts";

process.env["PATH"] = [path.join(uvDirectory, "bin"), process.env["PATH"]].join(path.delimiter);
testProjects(selectedProjects({ withUv: true }));
