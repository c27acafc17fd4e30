package orchestrator_test

import (
	"testing"

	"oneeffect/internal/orchestrator"
)

func TestWhoeverIsNotAskedIsAnonymousAndWhoIsHasItsOwnRolesOnly(t *testing.T) {
	anonymous := orchestrator.PrincipalOf(t.Context())
	if anonymous.Name != orchestrator.Anonymous || !anonymous.May(orchestrator.Read) || !anonymous.May(orchestrator.Submit) || !anonymous.May(orchestrator.Operate) {
		t.Errorf("nobody said who asks: %+v", anonymous)
	}
	ctx := orchestrator.WithPrincipal(t.Context(), orchestrator.Principal{Name: "ada", Roles: []orchestrator.Role{orchestrator.Operate}})
	ada := orchestrator.PrincipalOf(ctx)
	if ada.Name != "ada" || !ada.May(orchestrator.Operate) || ada.May(orchestrator.Read) || ada.May(orchestrator.Submit) {
		t.Errorf("ada, who only operates, is %+v", ada)
	}
	if none := orchestrator.PrincipalOf(orchestrator.WithPrincipal(ctx, orchestrator.Principal{})); none.Name != "" || none.May(orchestrator.Read) {
		t.Errorf("somebody without a name or a role is %+v", none)
	}
}
