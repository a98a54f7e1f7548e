// The owner of a record, other people with access, and the reasons.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything, invalidate, page } from '../../api/query.ts'
import { call, Refusal } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Accessible, Choice, Instance, Json, Reference, Way } from '../../api/shapes.ts'
import { Failure, sayError } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { MatrixView } from '../../generic/matrix.tsx'
import { Members } from '../../generic/members.tsx'
import { may, type PanelProps } from '../../generic/resource.ts'
import { tagOf } from '../../generic/seen.ts'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Chooser } from '../../kit/fields.tsx'
import { say } from '../../kit/toasts.tsx'
import { isReference, nameOf } from '../../kit/values.tsx'
import { CLASSES, RECORDS } from '../../shared/records/class.ts'
import { type Key, named, t } from '../../texts.ts'
import look from './records.module.css'

const OWNERS = '/api/users/autocomplete/?account_type__exclude=one_time_completion&text__icontains='
const USERS = '/api/users/autocomplete/?text__icontains='

const SIZE = 25

export function People({ instance, path }: PanelProps) {
  const canChange = may(instance, 'edit_owners')
  const [offset, setOffset] = useState(0)
  const query = (at: number) =>
    page(`${CLASSES}${instance.object_class}/record-permission-sets/`, `limit=${SIZE}&offset=${at}`)
  const sets = useQuery(query(offset))
  return (
    <section className={generic.section}>
      <h2>{t('records.people')}</h2>
      <Owner key={`${ownerOf(instance)?.id}`} instance={instance} path={path} canChange={canChange} />
      {(sets.data?.results ?? []).map((set) => (
        <OneSet key={`${set.id}`} set={set} path={path} canChange={canChange} />
      ))}
      <Turn page={sets.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      <Access path={path} canAskAboutOthers={canChange} />
    </section>
  )
}

const ownerOf = ({ owner }: Instance) => (isReference(owner) ? (owner as unknown as Reference) : undefined)

function Owner({ instance, path, canChange }: PanelProps & { canChange: boolean }) {
  const owner = ownerOf(instance)
  const [isEditing, setIsEditing] = useState(false)
  const [chosen, setChosen] = useState<Choice | null>(owner ? { value: owner.id, text: nameOf(owner) } : null)
  const [error, setError] = useState<unknown>()
  const save = async () => {
    try {
      // The record may have changed otherwise, but its owner must be the shown one.
      const ifMatch = await tagOf(path, instance, (shown, now) => ownerOf(shown)?.id === ownerOf(now)?.id)
      await call('PATCH', path, { body: { owner: chosen?.value ?? null }, ifMatch })
      say(t('saved'))
      setIsEditing(false)
    } catch (refused) {
      // Another owner resets this form and its messages.
      if (refused instanceof Refusal && refused.status === 412) sayError(refused)
      else setError(refused)
    }
    void invalidate(RECORDS, CLASSES)
  }
  if (!isEditing) {
    return (
      <div className={look.row}>
        <span>
          {`${t('owner')}: `}
          {owner ? nameOf(owner) : <span className={generic.none}>{t('none')}</span>}
          {owner?.is_deleted && <span className={css.tag}>{t('deleted-account')}</span>}
        </span>
        {canChange && <Button onPress={() => setIsEditing(true)}>{t('records.bulk.owner')}</Button>}
      </div>
    )
  }
  return (
    <div className={look.box}>
      {error !== undefined && <Failure error={error} />}
      <Chooser
        name="owner"
        label={t('owner')}
        hint={t('records.owner-hint')}
        autocomplete={OWNERS}
        value={chosen?.value ?? null}
        text={chosen?.text ?? ''}
        onChange={setChosen}
      />
      <div className={css.actions}>
        <Button look="primary" onPress={() => void save()}>
          {t('save')}
        </Button>
        <Button look="quiet" onPress={() => setIsEditing(false)}>
          {t('cancel')}
        </Button>
      </div>
    </div>
  )
}

/** The assignees of a set are read when it is opened. */
function OneSet({ set, path, canChange }: { set: Instance; path: string; canChange: boolean }) {
  const [isOpen, setIsOpen] = useState(false)
  const assignees = `${path}permission-sets/${set.id}/assignees/`
  return (
    <details className={generic.set} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{`${set.name}`}</summary>
      {isOpen && (
        <div className={look.dialog}>
          <MatrixView value={(set.permissions ?? null) as Json} />
          <Members title="assigned-people" path={assignees} canChange={canChange} isByLine />
          <Members title="assigned-groups" path={`${assignees}user-groups/`} canChange={canChange} isByLine />
        </div>
      )}
    </details>
  )
}

/** The access of a person to the record, with its reasons; also of their agent. */
function Access({ path, canAskAboutOthers }: { path: string; canAskAboutOthers: boolean }) {
  const me = session()?.user
  const [isOpen, setIsOpen] = useState(false)
  const [user, setUser] = useState<Choice | null>(me ? { value: me.id, text: nameOf(me) } : null)
  const [connector, setConnector] = useState<Choice | null>(null)
  const mayListConnectors = session()?.permissions?.mcp_connectors?.list === true
  const asked = new URLSearchParams({
    ...(user && user.value !== me?.id && { user: `${user.value}` }),
    ...(connector && { connector: `${connector.value}` }),
  })
  const accessQuery = useQuery({ ...anything<Accessible>(`${path}access/?${asked}`), enabled: isOpen && user !== null })
  return (
    <details className={generic.set} onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>{t('records.access')}</summary>
      {isOpen && (
        <div className={look.dialog}>
          <div className={look.narrow}>
            {canAskAboutOthers && (
              <Chooser
                name="access-user"
                label={t('records.access.user')}
                isRequired
                autocomplete={USERS}
                value={user?.value ?? null}
                text={user?.text ?? ''}
                onChange={setUser}
              />
            )}
            {mayListConnectors && (
              <Chooser
                name="access-connector"
                label={t('records.access.connector')}
                autocomplete="/api/mcp/connectors/"
                value={connector?.value ?? null}
                text={connector?.text ?? ''}
                onChange={setConnector}
              />
            )}
          </div>
          {accessQuery.error && <Failure error={accessQuery.error} />}
          {accessQuery.data && <Ways access={accessQuery.data} />}
        </div>
      )}
    </details>
  )
}

function wayText(way: Way): string {
  const name = way.source === 'account_type' ? named('field', `${way.name}`) : (way.name ?? '')
  const isHidden = way.name === null && (way.source === 'role' || way.source === 'class_permission_set')
  const text = t(`records.access.${isHidden ? 'hidden-' : ''}${way.source}` as Key, { name })
  if (!way.user_group) return text
  const group = way.user_group.name
  return group ? t('records.access.by-group', { way: text, group }) : t('records.access.by-hidden-group', { way: text })
}

function answerText(isAllowed: boolean, ways: Way[]): string {
  if (ways.length === 0) return isAllowed ? t('yes') : t('no')
  const given = ways.map(wayText).join('; ')
  return isAllowed ? t('records.access.yes', { ways: given }) : t('records.access.inactive', { ways: given })
}

function Ways({ access }: { access: Accessible }) {
  return (
    <>
      {Object.entries(access.permissions).map(([resource, actions]) => (
        <div key={resource} className={look.box}>
          <h3>{named('resource', resource)}</h3>
          <dl className={generic.facts}>
            {Object.entries(actions).map(([action, isAllowed]) => {
              const ways = access.ways.filter((way) => way.resource === resource && way.action === action)
              return (
                <div key={action} className={generic.fact}>
                  <dt>{named('action', action)}</dt>
                  <dd>{answerText(isAllowed, ways)}</dd>
                </div>
              )
            })}
          </dl>
        </div>
      ))}
    </>
  )
}
