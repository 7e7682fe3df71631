import { testProjects } from "./deploy.ts";
import { selectedProjects } from "./select.ts";

testProjects(selectedProjects({ withUv: false }));
