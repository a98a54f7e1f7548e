import { session } from '../api/session.ts'

/** Where a component is, the API tells to few; everybody else is shown something else instead. */
export const maySeeComponents = () => session()?.permissions?.custom_component?.view === true
