// The Cosmos DB emulator under @azure/cosmos for Node.js, which has a query engine
// of its own. Prints one line for each check, then how many passed.
//
//   COSMOS_ENDPOINT, COSMOS_KEY    where, and the account's key
//   node cosmos.mjs [EXPRESSION]   the checks whose names match, or all
import { runChecks } from "./checks.mjs";
import { Account } from "./account.mjs";
import "./resources.mjs";
import "./items.mjs";
import "./queries.mjs";
import "./feeds.mjs";

const { passed, failed } = await runChecks(new RegExp(process.argv[2] ?? ""), (prefix) => new Account(prefix));
console.log(`second client of Cosmos DB: ${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
