/** How this package calls itself. */

import { SDK_VERSION } from "./models.js";

export const USER_AGENT = `hostel-sdk-typescript/${SDK_VERSION}`;
