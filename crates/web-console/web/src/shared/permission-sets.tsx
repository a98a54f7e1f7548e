// The permission sets of a group or a class: their actions and their assignees.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, options, page } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Fields, Instance, Json } from '../api/shapes.ts'
import { AskFirst } from '../generic/ask-first.tsx'
import { changed } from '../generic/changes.ts'
import { isHidden, Reading } from '../generic/failure.tsx'
import { FormDialog } from '../generic/form-dialog.tsx'
import look from '../generic/generic.module.css'
import { Matrix, MatrixView } from '../generic/matrix.tsx'
import { Members } from '../generic/members.tsx'
import { useMerged, useSettled } from '../generic/merging.tsx'
import { inList, isSeen, removeSeen } from '../generic/seen.ts'
import { Turn } from '../generic/turn.tsx'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'

/** The actions on a set. */
export function EditOrDelete({ onEdit, onDelete }: { onEdit: () => void; onDelete: (() => void) | undefined }) {
  return (
    <div className={css.actions}>
      <Button icon="pencil" onPress={onEdit}>
        {t('edit')}
      </Button>
      {onDelete && (
        <Button look="danger" onPress={onDelete}>
          {t('delete')}
        </Button>
      )}
    </div>
  )
}

const SIZE = 25

/** Sets that the system makes keep their names, and no assignees. */
const isSystem = ({ type }: Instance) => type === 'everyone' || type === 'members'

export function PermissionSets({ path, canChange }: { path: string; canChange: boolean }) {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(path, `limit=${SIZE}&offset=${at}`)
  const setsQuery = useQuery(query(offset))
  const [edited, setEdited] = useState<Instance | 'new' | undefined>()
  const [deleted, setDeleted] = useState<Instance | undefined>()
  /** The assignees of a set are read when it is opened. */
  const [opened, setOpened] = useState<Json[]>([])
  if (isHidden(setsQuery)) return null
  const remove = async (set: Instance) => {
    await removeSeen(path, set)
    setDeleted(undefined)
    await invalidate(path)
  }
  return (
    <section className={look.section}>
      <h2>{t('permission-sets')}</h2>
      <Reading of={[setsQuery]} />
      {setsQuery.data?.results.map((set) => (
        <details
          key={`${set.id}`}
          className={look.set}
          onToggle={({ currentTarget }) => {
            const id = set.id
            if (currentTarget.open && id !== undefined && !opened.includes(id)) setOpened([...opened, id])
          }}
        >
          <summary>
            {`${set.name}`} {isSystem(set) && <span className={css.tag}>{t('system')}</span>}
          </summary>
          <MatrixView value={(set.permissions ?? null) as Json} />
          {!isSystem(set) && opened.includes(set.id ?? null) && (
            <>
              <Members title="assigned-people" path={`${path}${set.id}/assignees/users/`} canChange={canChange} />
              <Members title="assigned-groups" path={`${path}${set.id}/assignees/user-groups/`} canChange={canChange} />
            </>
          )}
          {canChange && (
            <EditOrDelete onEdit={() => setEdited(set)} onDelete={isSystem(set) ? undefined : () => setDeleted(set)} />
          )}
        </details>
      ))}
      <Turn page={setsQuery.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {canChange && (
        <div>
          <Button icon="plus" onPress={() => setEdited('new')}>
            {t('permission-sets.add')}
          </Button>
        </div>
      )}
      {edited && <Edit path={path} set={edited === 'new' ? undefined : edited} onDone={() => setEdited(undefined)} />}
      {deleted && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: `${deleted.name}` })}
          text={t('permission-sets.deletes')}
          action={t('delete')}
          run={() => remove(deleted)}
          onClose={() => setDeleted(undefined)}
        />
      )}
    </section>
  )
}

const permissionFields = ({ name = '', permissions = {} }: Instance): Fields => ({ name, permissions })

function Edit({ path, set, onDone }: { path: string; set: Instance | undefined; onDone: () => void }) {
  const described = useQuery(options(path))
  const [shownSet, setShownSet] = useState(set)
  const fields = (described.data?.details.schema ?? []).filter(
    ({ alias }) => alias === 'permissions' || (alias === 'name' && !(set && isSystem(set))),
  )
  const { base, values, setValues, take, question, settled } = useMerged(set ? permissionFields(set) : {}, fields)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const save = async () => {
    setIsBusy(true)
    try {
      if (shownSet) {
        const now = await inList(path, shownSet.id)
        if (!isSeen(shownSet, now)) {
          setShownSet(now)
          take({ values: permissionFields(now), by: now, groups: fields, onBack: () => setShownSet(shownSet) })
          setIsBusy(false)
          return
        }
        await call('PATCH', `${path}${shownSet.id}/`, { body: changed(base, values) })
      } else await call('POST', path, { body: values })
      say(t('saved'))
      await invalidate(path)
      onDone()
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  useSettled(settled, () => void save())
  if (!described.data) return null
  return (
    <>
      <FormDialog
        title={set ? `${set.name}` : t('permission-sets.add')}
        fields={fields}
        sections={[]}
        values={values}
        instance={set}
        inputs={{ permissions: Matrix }}
        error={error}
        isBusy={isBusy}
        isChanged={Object.keys(changed(base, values)).length > 0}
        submit={t('save')}
        onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
        onSubmit={() => void save()}
        onDone={onDone}
      />
      {question}
    </>
  )
}
