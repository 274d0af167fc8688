//! F1: the standard input of agents.

use hostel_tests::wait;
use serde_json::json;

use crate::scene::{BOTH, Scene};

/// A tool that an agent was allowed to run answers the question of a session that it made itself, and that of somebody
/// else's, through the doors that write into agents' inputs. Prompts are injected and inputs closed as well.
#[test]
fn nobody_answers_an_agent_through_its_input() {
    let scene = Scene::up("");
    for guard in BOTH {
        let (victim, question) = scene.asking_session();
        let process = scene.agent_process(&victim);
        let read = |scene: &Scene| {
            (scene.process(&process.0)["stdin_applied"].clone(), scene.session(&victim)["turns"].clone())
        };
        let before = read(&scene);
        let (witness, injected) = (scene.witness("asked"), scene.witness("injected"));
        let facts = json!({
            "victim": [process.0, process.1], "session": victim, "injected": injected, "witness": witness,
            "agent": guard.agent(),
        });
        let attack = scene.begin(guard, "input.answer", &facts);
        let session = attack.wait_reached("child");
        let own = scene.question_of(&session);
        let (id, name) = scene.agent_process(&session);
        attack.tell("process", &format!("{id} {name}"));
        attack.tell("question", &own);
        let said = attack.end();
        assert!(!witness.exists() && !injected.exists(), "{guard:?}: {said}");
        for approval in [&own, &question] {
            assert_eq!(scene.state(approval), "pending", "{guard:?}: {said}");
        }
        assert_eq!(read(&scene), before, "{guard:?}: {said}");
        // The person's answers count, so both agents still hear.
        scene.approve_tool(&session, &own);
        scene.wait_for(&witness);
        scene.approve_tool(&victim, &question);
        wait::eventually("the other agent to go on", || scene.messages(&victim).contains("approved"));
        assert!(!injected.exists(), "{guard:?}");
    }
}
