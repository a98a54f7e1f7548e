import { Members } from '../../generic/members.tsx'
import { may, type PanelProps, type Parts } from '../../generic/resource.ts'
import { ManagedGroup } from '../../shared/managed.tsx'
import { PermissionSets } from '../../shared/permission-sets.tsx'

const People = ({ instance, path }: PanelProps) => (
  <>
    <Members title="members" path={`${path}members/users/`} canChange={may(instance, 'edit')} />
    <Members title="owners" path={`${path}owners/users/`} canChange={may(instance, 'edit_perm_set')} />
  </>
)

const Sets = ({ instance, path }: PanelProps) => (
  <PermissionSets path={`${path}permission-sets/`} canChange={may(instance, 'edit_perm_set')} />
)

export const parts: Parts = { above: [ManagedGroup], panels: [People, Sets] }
