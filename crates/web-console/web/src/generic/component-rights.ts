import { session } from '../api/session.ts'

/** Whether somebody may read all that is known of components, and not only show them. */
export const maySeeComponents = () => session()?.permissions?.custom_component?.view === true
