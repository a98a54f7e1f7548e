import { session } from '../api/session.ts'

/** True if the caller may read the details of components, not only show them. */
export const mayReadComponents = () => session()?.permissions?.custom_component?.view === true
