// The groups that a user is a member of, among those that the reader may view.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Choice, Instance } from '../../api/shapes.ts'
import { Failure, isHidden, Reading, sayError } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { may, type PanelProps } from '../../generic/resource.ts'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { MultiChooser } from '../../kit/fields.tsx'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'

const SIZE = 25
const GROUPS = '/api/user-groups/'

const membersOf = (group: Instance['id'] | Choice['value']) => `${GROUPS}${group}/members/users/`

/** Other users cannot be members. */
const canBeMember = ({ account_type, status }: Instance) =>
  account_type !== 'one_time_completion' && status !== 'anonymized'

export function GroupsOf({ instance: user }: PanelProps) {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(GROUPS, `member=${user.id}&ordering=name&limit=${SIZE}&offset=${at}`)
  const groupsQuery = useQuery(query(offset))
  const [chosen, setChosen] = useState<Choice[]>([])
  const [error, setError] = useState<unknown>()
  if (isHidden(groupsQuery)) return null
  const groups = session()?.permissions?.user_groups
  const change = async (method: 'POST' | 'DELETE', group: Choice['value']) => {
    await call(method, membersOf(group), { body: [Number(user.id)] })
  }
  const add = async () => {
    try {
      for (const group of chosen) {
        await change('POST', group.value)
        setChosen((left) => left.filter((one) => one !== group))
      }
      setError(undefined)
      say(t('saved'))
    } catch (refused) {
      setError(refused)
    }
    await invalidate(GROUPS)
  }
  const remove = async (group: Instance) => {
    const back = async () => {
      await change('POST', Number(group.id)).catch((refused: unknown) => sayError(refused))
      await invalidate(GROUPS)
    }
    try {
      await change('DELETE', Number(group.id))
      setError(undefined)
      say(t('groups-of.removed', { name: `${group.name}` }), { undo: () => void back() })
    } catch (refused) {
      setError(refused)
    }
    await invalidate(GROUPS)
  }
  return (
    <section className={look.section}>
      <h2>
        {t('user-groups')}{' '}
        {groupsQuery.data && <span className={css.optional}>{groupsQuery.data.filtered_count ?? ''}</span>}
      </h2>
      <Reading of={[groupsQuery]} />
      {error !== undefined && <Failure error={error} />}
      {groupsQuery.data?.results.length === 0 && offset === 0 && (
        <p className={look.none}>{t(groups?.view ? 'groups-of.none' : 'groups-of.none-visible')}</p>
      )}
      <ul className={look.plain}>
        {groupsQuery.data?.results.map((group) => (
          <li key={`${group.id}`} className={look.member}>
            <Link to={`/admin/groups/${group.id}`}>{`${group.name}`}</Link>
            {may(group, 'edit') && (
              <button
                type="button"
                className={css.remove}
                aria-label={t('groups-of.remove', { name: `${group.name}` })}
                onClick={() => void remove(group)}
              >
                {'×'}
              </button>
            )}
          </li>
        ))}
      </ul>
      <Turn page={groupsQuery.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {/* The owner of a single group adds members on its page: here most choices would be groups that they may not change. */}
      {groups?.edit && canBeMember(user) && (
        <div className={look.adding}>
          <MultiChooser
            name="groups"
            label={t('groups-of.add')}
            isRequired
            autocomplete={`${GROUPS}autocomplete/?text__icontains=`}
            value={chosen}
            onChange={setChosen}
          />
          {chosen.length > 0 && (
            <div>
              <Button look="primary" onPress={() => void add()}>
                {t('add-count', { count: chosen.length })}
              </Button>
            </div>
          )}
        </div>
      )}
    </section>
  )
}
